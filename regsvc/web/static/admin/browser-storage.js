// What this browser stores for the operator. Where storage is not allowed, values last until the page is left.

/** @type {Map<string, any>} */
const memory = new Map();

/** @typedef {"localStorage" | "sessionStorage"} StorageName `sessionStorage` is for this tab alone */

/**
 * Return the value under `key`, or `fallback`.
 *
 * @param {string} key
 * @param {any} fallback
 * @param {StorageName} storage
 */
export function recall(key, fallback, storage = "localStorage") {
  try {
    return JSON.parse(window[storage].getItem(`companion.${key}`) ?? "null") ?? fallback;
  } catch {
    return memory.get(key) ?? fallback; // storage is not allowed, or holds something that is not ours
  }
}

/**
 * Store a value; null removes it.
 *
 * @param {string} key
 * @param {unknown} value
 * @param {StorageName} storage
 */
export function store(key, value, storage = "localStorage") {
  memory.set(key, value);
  try {
    if (value === null) {
      window[storage].removeItem(`companion.${key}`);
    } else {
      window[storage].setItem(`companion.${key}`, JSON.stringify(value));
    }
  } catch {
    // it stays in memory
  }
}
