// Words for what the API tells of users, and moments and numbers as people here write them.

import { make } from "../shared/dom.js";
import { hasWord, language, moment, word } from "../shared/i18n.js";
import { whatIsDecided } from "./phrases.js";

/** The words for what the API says, or what it says where there are none (yet). */
export function named(group, value) {
  const key = `${group}_${value}`;
  return hasWord(key) ? word(key) : String(value);
}

/** 1,000,000 */
export function numeral(number) {
  return number.toLocaleString(language);
}

/** A moment (epoch milliseconds), or `otherwise` for null. */
export function when(milliseconds, otherwise = "") {
  if (milliseconds === null || milliseconds === undefined) {
    return otherwise;
  }
  return make("time", { datetime: new Date(milliseconds).toISOString() }, moment(milliseconds));
}

export function badge(text, kind = null) {
  return make("span", { class: "badge", "data-kind": kind }, text);
}

const KINDS_OF_STATUS = { pending: "wait", approved: "good", rejected: "bad", banned: "bad" };

export function statusLabel(status) {
  return badge(named("status", status), KINDS_OF_STATUS[status]);
}

const KINDS_OF_PLAYER = { pending: "wait", conflict: "bad", returned: "bad" };

/** How the player stands in the game; nothing where nobody looks there. */
export function playerLabel(plugin) {
  return plugin === "off" ? "" : badge(named("player", plugin), KINDS_OF_PLAYER[plugin]);
}

/** That a decision about this person waits, or null. */
export function waitingLabel(office, username) {
  const entry = office.waiting(username);
  return entry === null ? null : badge(word("waits", { what: whatIsDecided(entry) }), "wait");
}

/** A name that leads to the user. */
export function userLink(office, username) {
  return make("a", { href: office.address("user", { name: username }) }, make("bdi", {}, username));
}
