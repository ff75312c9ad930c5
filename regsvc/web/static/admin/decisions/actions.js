// Decisions about users: to which of them a decision applies, and how it is confirmed.

import { button } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { applies, DECISION_KEYS } from "./transitions.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */

/**
 * Decide about the users to whom the decision applies, and report the others; all decisions but an approval need
 * confirmation. Returns the pending decision, or null.
 *
 * @param {ViewContext} context
 * @param {DecisionName} decision
 * @param {ListedUser[]} users
 */
export async function decideFor(context, decision, users) {
  const usernames = users.filter((user) => applies(decision, user)).map(({ username }) => username);
  if (users.length === 0) {
    notice.show(t("choose_first"));
    return null;
  }
  if (usernames.length === 0) {
    notice.show(t(`fits_nobody_${decision}`), "bad");
    return null;
  }
  const decided =
    decision === "approve" ? context.decide({ decision, usernames }) : await ask(context, decision, usernames);
  if (decided !== null && usernames.length < users.length) {
    notice.show(t("some_left_out", { count: users.length - usernames.length }));
  }
  return decided;
}

/**
 * The key that opened the dialog also confirms it, but pressing a key twice never deletes users.
 *
 * @param {ViewContext} context
 * @param {DecisionName} decision
 * @param {string[]} usernames
 */
function ask(context, decision, usernames) {
  return context.askAndDecide(decision, usernames, { key: decision === "delete" ? null : DECISION_KEYS[decision] });
}

/**
 * Change the reason or the end of a ban.
 *
 * @param {ViewContext} context
 * @param {ListedUser} user
 */
export function changeBan(context, { username, reason, banExpiresAt }) {
  return context.askAndDecide("ban", [username], { reason: reason ?? "", end: banExpiresAt });
}

/**
 * Make a button for each decision.
 *
 * @param {DecisionName[]} decisions
 * @param {(decision: DecisionName) => unknown} decide
 */
export function decisionButtons(decisions, decide) {
  return decisions.map((decision) =>
    button(t(`do_${decision}`), () => decide(decision), decision === "approve" ? "" : "quiet"),
  );
}

/**
 * Make a key binding for each decision.
 *
 * @param {DecisionName[]} decisions
 * @param {(decision: DecisionName) => unknown} decide
 * @returns {Record<string, import("../keyboard.js").Binding>}
 */
export function decisionKeys(decisions, decide) {
  return Object.fromEntries(
    decisions.map((decision) => [
      DECISION_KEYS[decision],
      { label: `key_${decision}`, action: () => decide(decision) },
    ]),
  );
}
