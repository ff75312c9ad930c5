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

const DRAFTS = "drafts";

/**
 * Fill in what was typed about a user and not sent yet, and keep what is typed from now on, in this tab: it outlives a
 * reload, the list that is loaded again, and a session that ends.
 *
 * @param {HTMLTextAreaElement | HTMLInputElement} field
 * @param {string} kind of text
 * @param {string} username
 * @param {string} otherwise what is filled in without a draft
 */
export function keepDraft(field, kind, username, otherwise = "") {
  field.value = recall(DRAFTS, {}, "sessionStorage")[draftKey(kind, username)] ?? otherwise;
  field.addEventListener("input", () => writeDraft(kind, username, field.value));
}

/**
 * @param {string} kind
 * @param {string} username
 */
export function dropDraft(kind, username) {
  writeDraft(kind, username, "");
}

/**
 * Drop the drafts of whoever used this tab before, unless it was this operator; "" drops all.
 *
 * @param {string} operator
 */
export function claimDrafts(operator) {
  const drafts = recall(DRAFTS, {}, "sessionStorage");
  if (drafts.operator !== operator.toLowerCase()) {
    store(DRAFTS, operator ? { operator: operator.toLowerCase() } : null, "sessionStorage");
  }
}

/**
 * @param {string} kind
 * @param {string} username
 * @param {string} text
 */
function writeDraft(kind, username, text) {
  const { [draftKey(kind, username)]: _before, ...others } = recall(DRAFTS, {}, "sessionStorage");
  store(DRAFTS, text ? { ...others, [draftKey(kind, username)]: text } : others, "sessionStorage");
}

/**
 * @param {string} kind
 * @param {string} username
 */
function draftKey(kind, username) {
  return `${kind}:${username.toLowerCase()}`;
}
