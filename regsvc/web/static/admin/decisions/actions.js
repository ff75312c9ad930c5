// Decisions about users: to which of them a decision applies, and how it is confirmed.

import { config } from "../../shared/config.js";
import { choose } from "../../shared/dialog.js";
import { button } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { mayChoose } from "../permissions.js";
import { countNames, formatNumber } from "../phrases.js";
import { applies, DECISION_KEYS, statusesOf } from "./transitions.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */

/** @type {PasswordChoice[]} */
const PASSWORD_CHOICES = ["keep", "take", "link"];

/**
 * Decide about the users to whom the decision applies, and report the others; all decisions but an approval need
 * confirmation. Returns the pending decision, or null.
 *
 * @param {ViewContext} context
 * @param {DecisionName} decision
 * @param {ListedUser[]} users
 */
export async function decideFor(context, decision, users) {
  const fitting = users.filter((user) => applies(decision, user));
  const usernames = fitting.map(({ username }) => username);
  const shown = statusesOf(fitting);
  if (users.length === 0) {
    notice.show(t("choose_first"));
    return null;
  }
  if (usernames.length === 0) {
    notice.show(t(`fits_nobody_${decision}`), "bad");
    return null;
  }
  const anew = fitting.filter(({ status, plugin }) => status === "approved" && plugin === "returned");
  const asksPassword = decision === "approve" && anew.length > 0;
  const passwordChoice = asksPassword ? await askPassword(anew.map(({ username }) => username)) : undefined;
  if (passwordChoice === null) {
    return null;
  }
  const decided =
    decision === "approve"
      ? context.decide({ decision, usernames, shown, passwordChoice })
      : await context.askAndDecide(decision, usernames, { key: confirmingKey(decision), shown });
  if (decided !== null && usernames.length < users.length) {
    notice.show(t("some_left_out", { count: users.length - usernames.length }));
  }
  return decided;
}

/**
 * Ask which password counts for users who registered anew in the game; resolves to null if the dialog was cancelled.
 *
 * @param {string[]} usernames
 */
export function askPassword(usernames) {
  const isMailed = config.registration.passwordReset === "mail";
  const choices = PASSWORD_CHOICES.filter((value) => mayChoose(value) && (value !== "link" || isMailed));
  return choose(
    t("ask_password", { names: countNames(usernames) }),
    t("ask_password_why"),
    choices.map((value) => ({ value, text: t(`choice_${value}`), hint: t(`choice_about_${value}`), kind: "quiet" })),
  );
}

/**
 * Return the key that confirms: the one that opened the dialog, but pressing a key twice never deletes users.
 *
 * @param {DecisionName} decision
 */
function confirmingKey(decision) {
  return decision === "delete" ? null : DECISION_KEYS[decision];
}

/**
 * Change the reason or the end of a ban.
 *
 * @param {ViewContext} context
 * @param {ListedUser} user
 */
export function changeBan(context, user) {
  const { username, reason, banExpiresAt } = user;
  return context.askAndDecide("ban", [username], {
    reason: reason ?? "",
    end: banExpiresAt,
    shown: statusesOf([user]),
  });
}

/** @type {Partial<Record<DecisionName, string>>} */
const BUTTON_KINDS = { approve: "", reject: "quiet bad", ban: "quiet bad", delete: "quiet bad" };

/**
 * Make a button for each decision.
 *
 * @param {DecisionName[]} decisions
 * @param {(decision: DecisionName) => unknown} decide
 */
function decisionButtons(decisions, decide) {
  return decisions.map((decision) =>
    button(t(`do_${decision}`), () => decide(decision), BUTTON_KINDS[decision] ?? "quiet"),
  );
}

/**
 * Make buttons for the users selected in a table: those whose decision applies, each with the number of users.
 *
 * @param {ViewContext} context
 * @param {import("../table/table.js").Table<ListedUser>} table
 * @param {DecisionName[]} decisions
 * @param {(decision: DecisionName) => unknown} decide
 */
export function selectionButtons(context, table, decisions, decide) {
  const buttons = decisionButtons(decisions, decide);
  context.effect(() => {
    const users = table.selected;
    decisions.forEach((decision, index) => {
      const count = users.filter((user) => applies(decision, user)).length;
      buttons[index].hidden = count === 0;
      buttons[index].textContent = t("do_for_some", { what: t(`do_${decision}`), count: formatNumber(count) });
    });
  });
  return buttons;
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
