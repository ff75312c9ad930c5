// Reasons that operators give again and again: stored in this browser, with a few to begin with.

import { hasText, t } from "../../shared/i18n.js";
import { recall, store } from "../browser-storage.js";

const MAX_REASONS = 30; // for one decision

/**
 * Return the saved reasons for a decision, in their order.
 *
 * @param {DecisionName} decision
 * @returns {string[]}
 */
export function savedReasons(decision) {
  return recall("texts", {})[decision] ?? defaultReasons(decision);
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
 * suggested for the next, nor what was saved in another language.
 *
 * @param {DecisionName} decision
 * @returns {string}
 */
export function lastReason(decision) {
  const last = recall("last_texts", {})[decision] ?? "";
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
function defaultReasons(decision) {
  const reasons = [];
  while (hasText(`text_${decision}_${reasons.length + 1}`)) {
    reasons.push(t(`text_${decision}_${reasons.length + 1}`));
  }
  return reasons;
}
