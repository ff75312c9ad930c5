// What the page of one user shows, part by part.

import { make } from "../../../shared/dom.js";
import { facts } from "../../../shared/notice.js";
import { hasWord, nameOf, word } from "../../../shared/i18n.js";
import { badge, named, when } from "../../badges.js";
import { fateOf, whatMail } from "../../mail-badges.js";

export function factsOf(user) {
  const { chat } = user;
  const end = user.status === "banned" ? when(user.banExpiresAt, word("end_never")) : null;
  return facts([
    [word("email"), user.email],
    [word("reason"), user.reason && make("span", { class: "words" }, user.reason)],
    [word("decided"), user.reviewedAt && [when(user.reviewedAt), user.reviewedBy && ` · ${user.reviewedBy}`]],
    [word("end"), end],
    [word("registered"), [when(user.regTime), ` · ${named("origin", user.origin)}`]],
    [word("last_login"), when(user.lastLogin, word("never"))],
    [word("password_set"), when(user.passwordSetAt, word("never"))],
    [word("language"), user.language && nameOf(user.language)],
    [word("platform"), hasWord(user.platform) ? word(user.platform) : user.platform],
    [word("chat"), chat && `${chat.username ?? ""} (${chat.id})`],
  ]);
}

/** What is known of the player in the game, and what is about to be done there. */
export function playerOf({ plugin, player }) {
  if (plugin === "off") {
    return null;
  }
  const told = player ?? {};
  return [
    make("h4", {}, word("in_the_game")),
    make("p", {}, named("player_about", plugin)),
    facts([
      [word("since"), when(told.since)],
      [word("game_name"), told.realname],
      [word("game_email"), told.email],
      [word("game_registered"), when(told.registeredAt)],
      [word("game_wish"), told.wish && named("wish", told.wish)],
      [word("game_lock"), told.lockReason && [named("status", told.lockReason), told.lockedAt ? " · " : "", when(told.lockedAt)]],
      [word("game_premium"), told.premiumUuid],
      [word("game_conflicts"), told.conflicts?.map((field) => named("field", field)).join(word("between_names"))],
    ]),
  ];
}

export function mailsOf({ mails }) {
  return part("mails", mails.length, mails, (mail) => [
    make("span", { class: "first" }, whatMail(mail), " ", fateOf(mail)),
    make("span", { class: "beside" }, `${mail.to} · `, when(mail.doneAt ?? mail.createdAt)),
    mail.lastError && mail.state !== "sent" && make("span", { class: "words bad" }, mail.lastError),
  ]);
}

export function sessionsOf({ sessions }) {
  return part("sessions", sessions.length, sessions, ({ audience, ip, startedAt, lastSeenAt, isCurrent }) => [
    make("span", { class: "first" }, named("audience", audience), " ", isCurrent && badge(word("session_yours"), "good")),
    make("span", { class: "beside" }, ip && `${ip} · `, word("session_from"), " ", when(startedAt), " · ", word("session_seen"), " ", when(lastSeenAt)),
  ]);
}

export function clientsOf({ clients }) {
  return part("clients", clients.length, clients, ({ client, lastLoginAt }) => [make("span", { class: "first" }, client), make("span", { class: "beside" }, when(lastLoginAt))]);
}

/** A heading and a list, folded away where it is long; without entries that there are none. */
function part(name, count, entries, tell) {
  const list = make("ul", { class: "lines" }, entries.map((entry) => make("li", {}, tell(entry))));
  return [make("h4", {}, word(`${name}_count`, { count })), count === 0 ? make("p", { class: "quiet-text" }, word("none")) : list];
}
