// Badges for the states of users, players and mails; times; links to users; items of short lists.

import { icon, make } from "../shared/dom.js";
import { formatTime, t } from "../shared/i18n.js";
import { describeDecision, labelFor, statusInSentence, timeAgo } from "./phrases.js";

/** @typedef {"wait" | "good" | "bad" | null} Kind */

/**
 * Render a time (epoch milliseconds), or `otherwise` for null.
 *
 * @param {number | null | undefined} milliseconds
 * @param {Child} otherwise
 */
export function timeElement(milliseconds, otherwise = "") {
  if (milliseconds === null || milliseconds === undefined) {
    return otherwise;
  }
  return make("time", { datetime: new Date(milliseconds).toISOString() }, formatTime(milliseconds));
}

/**
 * Render how long ago something was, with the exact time for those who point at it or come to its row by keyboard; ""
 * for null.
 *
 * @param {number | null | undefined} milliseconds
 */
export function agoElement(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) {
    return "";
  }
  const time = make("time", { datetime: new Date(milliseconds).toISOString() }, timeAgo(milliseconds));
  return [time, make("span", { class: "exact" }, formatTime(milliseconds))];
}

/**
 * @param {string} text
 * @param {Kind} kind
 */
export function badge(text, kind = null) {
  return make("span", { class: "badge", "data-kind": kind }, text);
}

/**
 * Render the tag of a signal, whose colour is that of its kind.
 *
 * @param {ListedUser["signals"][number]} signal
 */
export function signalBadge({ kind, count, users }) {
  const worst = users[0]?.status ?? ""; // the first of them
  const isBad = (worst === "banned" || worst === "rejected") && kind !== "earlier_ban";
  const known = users.filter(({ status }) => status === worst).length;
  const element = badge(`${isBad ? `${known} ${statusInSentence(worst)} · ` : ""}${t(`tag_${kind}`, { count })}`);
  element.dataset.signal = kind;
  return element;
}

/** @type {Record<string, Kind>} */
const STATUS_KINDS = { pending: "wait", approved: "good", rejected: "bad", banned: "bad" };

/** @param {string} status */
export function statusBadge(status) {
  return badge(labelFor("status", status), STATUS_KINDS[status]);
}

/**
 * Render whether a pending user was asked something, and has answered; null if neither.
 *
 * @param {Pick<ListedUser, "waitingFor" | "answeredAt">} user
 */
export function askedBadge({ waitingFor, answeredAt }) {
  if (waitingFor === "applicant") {
    return badge(t("tag_asked"));
  }
  return answeredAt === null ? null : badge(t("tag_answered"), "wait");
}

/** @type {Record<string, Kind>} */
const PLAYER_KINDS = { pending: "wait", conflict: "bad", returned: "bad" };

/**
 * Render the state of the player in the game; "" where the sync is off.
 *
 * @param {string} plugin
 */
export function playerBadge(plugin) {
  return plugin === "off" ? "" : badge(labelFor("player", plugin), PLAYER_KINDS[plugin]);
}

/** @type {Record<string, Kind>} */
const LISTED_KINDS = { waiting: "wait", removed: "bad", conflict: "bad" };

/**
 * Render the state on the game's allowlist; "" for those who do not belong there, or where it is not kept.
 *
 * @param {string} allowlist
 */
export function listedBadge(allowlist) {
  const isThere = allowlist !== "off" && allowlist !== "absent";
  return isThere ? badge(labelFor("listed", allowlist), LISTED_KINDS[allowlist]) : "";
}

/**
 * Render the pending decision about a user, or null if there is none.
 *
 * @param {import("./view-context.js").ViewContext} context
 * @param {string} username
 */
export function pendingBadge(context, username) {
  const entry = context.pendingFor(username);
  if (entry === null) {
    return null;
  }
  const { decision } = entry; // which may be about others, too
  return badge(t("waits", { what: describeDecision({ decision, usernames: [username] }) }), "wait");
}

/**
 * Render a name that links to the user.
 *
 * @param {import("./view-context.js").ViewContext} context
 * @param {string} username
 */
export function userLink(context, username) {
  return make("a", { href: context.hashFor("user", { name: username }) }, make("bdi", {}, username));
}

/**
 * Make an item of a short list: what it is, below that more about it, and a button at the end.
 *
 * @param {Child} what
 * @param {Child} about
 * @param {Child} action
 */
export function listItem(what, about, action) {
  return make("li", {}, make("div", {}, what, make("span", { class: "secondary" }, about)), action);
}

/**
 * Make the only item of a list that has none.
 *
 * @param {string} symbol
 * @param {string} text
 */
export function emptyItem(symbol, text) {
  return make("li", { class: "empty" }, icon(symbol), text);
}
