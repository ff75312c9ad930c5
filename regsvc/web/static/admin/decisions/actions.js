// Decisions about users in lists and about one: which of them fit, and how each is asked for.

import { button } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { word } from "../../shared/i18n.js";

const REOPENED = ["absent", "returned"]; // states of a player whom an approval brings (back) into the game

const FITS = {
  approve: ({ status, plugin }) => status === "pending" || status === "rejected" || (status === "approved" && REOPENED.includes(plugin)),
  reject: ({ status }) => status === "pending",
  ban: ({ status }) => status !== "banned",
  unban: ({ status }) => status === "banned",
  delete: () => true,
};

export const DECISION_KEYS = { approve: "a", reject: "r", ban: "b", unban: "e", delete: "d" };

/** The events after which a user is no longer as he was. */
export const USER_EVENTS = ["user_registered", "user_approved", "user_rejected", "user_banned", "user_unbanned", "user_deleted"];

/** Whether a decision can be made about a user (as the API tells him). */
export function fits(decision, user) {
  return FITS[decision](user);
}

/** Decide about those of these users whom it fits; an approval needs no question. What is left out is told. */
export async function decideAbout(office, decision, users) {
  const fitting = users.filter((user) => fits(decision, user));
  const usernames = fitting.map(({ username }) => username);
  if (users.length === 0) {
    notice.say(word("choose_first"));
  } else if (usernames.length === 0) {
    notice.say(word(`fits_nobody_${decision}`), "bad");
  } else {
    const decided = decision === "approve" ? office.decide({ decision, usernames }) : await ask(office, decision, usernames);
    if (decided !== null && usernames.length < users.length) {
      notice.say(word("some_left_out", { count: users.length - usernames.length }));
    }
    return decided;
  }
  return null;
}

/** The key that asked means yes, too; but nobody is deleted by pressing one twice. */
function ask(office, decision, usernames) {
  return office.askAndDecide(decision, usernames, { key: decision === "delete" ? null : DECISION_KEYS[decision] });
}

/** Another reason or end for a ban that stands. */
export function changeBan(office, { username, reason, banExpiresAt }) {
  return office.askAndDecide("ban", [username], { reason: reason ?? "", end: banExpiresAt });
}

/** A button for each decision; `decide(decision)` is called. */
export function decisionButtons(decisions, decide) {
  return decisions.map((decision) => button(word(`do_${decision}`), () => decide(decision), decision === "approve" ? "" : "quiet"));
}

/** The keys for decisions. */
export function decisionKeys(decisions, decide) {
  return Object.fromEntries(decisions.map((decision) => [DECISION_KEYS[decision], { word: `key_${decision}`, action: () => decide(decision) }]));
}
