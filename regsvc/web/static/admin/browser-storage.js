// What this browser keeps for its operator. Where it may keep nothing, it is forgotten when the page is left.

const forgotten = new Map();

/** What was kept under `key`, or `fallback`. `storage`: `localStorage`, or `sessionStorage` for this tab alone. */
export function recall(key, fallback, storage = "localStorage") {
  try {
    return JSON.parse(window[storage].getItem(`companion.${key}`)) ?? fallback;
  } catch {
    return forgotten.get(key) ?? fallback; // storage is forbidden, or somebody else wrote into it
  }
}

/** Keep it; null: keep nothing under `key` any more. */
export function keep(key, value, storage = "localStorage") {
  forgotten.set(key, value);
  try {
    if (value === null) {
      window[storage].removeItem(`companion.${key}`);
    } else {
      window[storage].setItem(`companion.${key}`, JSON.stringify(value));
    }
  } catch {
    // it is kept in memory
  }
}
