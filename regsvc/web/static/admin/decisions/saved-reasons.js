// Reasons that operators give again and again: stored in this browser, with a few built-in ones at first. Those are
// codes (`reject.short_answers`), which everyone reads in their own language; all others are an operator's words.

import { hasText, keysOf, t } from "../../shared/i18n.js";
import { recall, store } from "../browser-storage.js";

const MAX_REASONS = 30; // for one decision
const SECTION = "reason.";

/**
 * Return a reason in words, if it is a code.
 *
 * @param {string} reason
 */
export function wordReason(reason) {
  return isBuiltIn(reason) ? t(SECTION + reason) : reason;
}

/** @param {string} reason */
export function isBuiltIn(reason) {
  return hasText(SECTION + reason);
}

/**
 * Return the code of a built-in reason for its words, and other words as they are.
 *
 * @param {DecisionName} decision
 * @param {string} words
 */
export function encodeReason(decision, words) {
  return builtInReasons(decision).find((code) => wordReason(code) === words) ?? words;
}

/**
 * Return the saved reasons for a decision, in their order. Earlier versions saved built-in ones in words.
 *
 * @param {DecisionName} decision
 * @returns {string[]}
 */
export function savedReasons(decision) {
  /** @type {string[] | undefined} */
  const saved = recall("texts", {})[decision];
  return saved?.map((reason) => encodeReason(decision, reason)) ?? builtInReasons(decision);
}

/**
 * Save a reason as the last one, unless it is saved already.
 *
 * @param {DecisionName} decision
 * @param {string} reason
 */
export function saveReason(decision, reason) {
  const others = savedReasons(decision).filter((saved) => saved !== reason);
  write(decision, [...others, reason].slice(-MAX_REASONS));
}

/**
 * @param {DecisionName} decision
 * @param {string} reason
 */
export function removeReason(decision, reason) {
  write(
    decision,
    savedReasons(decision).filter((saved) => saved !== reason),
  );
}

/**
 * Return the last reason that was given, if it is a saved one; "" for none. What was written for one user alone is not
 * suggested for the next, nor is the first saved one, or `r` twice would tell an applicant what nobody meant.
 *
 * @param {DecisionName} decision
 * @returns {string}
 */
export function lastReason(decision) {
  const last = encodeReason(decision, recall("last_texts", {})[decision] ?? "");
  return savedReasons(decision).includes(last) ? last : "";
}

/**
 * @param {DecisionName} decision
 * @param {string} reason
 */
export function rememberReason(decision, reason) {
  store("last_texts", { ...recall("last_texts", {}), [decision]: reason });
}

/**
 * @param {DecisionName} decision
 * @param {string[]} reasons
 */
function write(decision, reasons) {
  store("texts", { ...recall("texts", {}), [decision]: reasons });
}

/** @param {DecisionName} decision */
function builtInReasons(decision) {
  return keysOf(`${SECTION}${decision}.`).map((key) => key.slice(SECTION.length));
}
