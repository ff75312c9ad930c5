// The statuses of users, and the decisions that change them.

import { mayDecide } from "../permissions.js";

/** @type {Status[]} */
export const STATUSES = ["pending", "approved", "rejected", "banned"];

/** @type {DecisionName[]} */
export const DECISIONS = ["approve", "reject", "reopen", "ban", "unban", "delete"];

/**
 * The status after each decision that changes it.
 *
 * @type {Partial<Record<PendingName, Status | "deleted">>}
 */
export const OUTCOMES = {
  approve: "approved",
  reject: "rejected",
  reopen: "pending",
  ban: "banned",
  unban: "approved",
  delete: "deleted",
};

/**
 * The key for each decision.
 *
 * @type {Record<DecisionName, string>}
 */
export const DECISION_KEYS = { approve: "a", reject: "r", reopen: "w", ban: "b", unban: "e", delete: "d" };

/**
 * The events after which an application says other things than those that were shown, with the keys of their texts.
 *
 * @type {Record<string, string>}
 */
export const APPLICANT_NEWS = { user_answers_changed: "answers_changed", user_question_answered: "question_answered" };

/** The events after which a user has changed. */
export const USER_EVENTS = [
  "user_registered",
  "user_approved",
  "user_rejected",
  "user_banned",
  "user_unbanned",
  "user_reopened",
  "user_deleted",
  "user_undone",
  "user_note_added",
  "user_answer_judged",
  "user_asked",
  ...Object.keys(APPLICANT_NEWS),
];

/**
 * Return whether the member of the team who is logged in can make a decision about a user.
 *
 * @param {DecisionName} decision
 * @param {ListedUser} user
 */
export function applies(decision, user) {
  return mayDecide(decision, user.status) && user.decisions.includes(decision);
}

/**
 * Return the status of each user, as it is shown.
 *
 * @param {ListedUser[]} users
 * @returns {Record<string, Status>}
 */
export function statusesOf(users) {
  return Object.fromEntries(users.map(({ username, status }) => [username, status]));
}
