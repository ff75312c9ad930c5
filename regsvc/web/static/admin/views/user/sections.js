// The sections of the page of one user.

import { nameDevice } from "../../../shared/device.js";
import { button, definitionList, make } from "../../../shared/dom.js";
import { hasText, languageName, t } from "../../../shared/i18n.js";
import { badge, timeElement } from "../../badges.js";
import { describeMembership } from "../../decisions/membership.js";
import { may } from "../../permissions.js";
import { labelFor } from "../../phrases.js";
import { mailBadge, mailName } from "../mails.js";
import { originFacts } from "../queue/applicant.js";

/** @param {UserDetails} user */
export function renderFacts(user) {
  const { chat } = user;
  const end = user.status === "banned" ? timeElement(user.banExpiresAt, t("end_never")) : null;
  return definitionList([
    [t("email"), user.email],
    [t("reason"), user.reason && make("span", { class: "user-text" }, user.reason)],
    [t("decided"), user.reviewedAt && [timeElement(user.reviewedAt), user.reviewedBy && ` · ${user.reviewedBy}`]],
    [t("end"), end],
    [t("membership"), describeMembership(user)],
    [t("registered"), [timeElement(user.regTime), ` · ${labelFor("origin", user.origin)}`]],
    [t("invited_by"), user.invitedBy],
    ...originFacts(user),
    [t("last_login"), timeElement(user.lastLogin, t("never"))],
    [t("password_set"), timeElement(user.passwordSetAt, t("never"))],
    [t("language"), user.language && languageName(user.language)],
    [t("platform"), hasText(user.platform) ? t(user.platform) : user.platform],
    [t("chat"), chat && `${chat.username ?? ""} (${chat.id})`],
  ]);
}

/**
 * Render what has to let the user into the game, and the entry on its allowlist. Why users who may play are not on it
 * is told by the panel above; here, why others still are.
 *
 * @param {UserDetails} user
 */
export function renderGates({ status, gates, allowlist, listed }) {
  const names = gates.map((gate) => labelFor("gate", gate)).join(t("between_names"));
  const isKept = gates.includes("allowlist");
  const leaves = allowlist === "waiting" && status !== "approved";
  return [
    make("h3", {}, t("gates")),
    make("p", {}, gates.length > 0 ? t("gates_about", { names }) : t("gates_none")),
    leaves && make("p", {}, labelFor("leaves", listed?.reason ?? "next_run")),
    isKept &&
      listed &&
      definitionList([
        [labelFor("listed", allowlist), timeElement(listed.since)],
        [t("uuid"), listed.uuid],
      ]),
  ];
}

/**
 * Render the state of the player in the game, and what the sync is about to do; null where the sync is off.
 *
 * @param {UserDetails} user
 */
export function renderPlayer({ plugin, player }) {
  if (plugin === "off") {
    return null;
  }
  return [make("h3", {}, t("in_the_game")), renderPlayerFacts(player)];
}

/** @param {UserDetails["player"]} player */
function renderPlayerFacts(player) {
  if (!player) {
    return definitionList([]);
  }
  const { lockReason, lockedAt, wish } = player;
  return definitionList([
    [t("since"), timeElement(player.since)],
    [t("game_name"), player.realname],
    [t("game_email"), player.email],
    [t("game_registered"), timeElement(player.registeredAt)],
    [t("game_wish"), wish && labelFor("wish", wish)],
    [t("game_lock"), lockReason && [labelFor("status", lockReason), lockedAt ? " · " : "", timeElement(lockedAt)]],
    [t("game_premium"), player.premiumUuid],
    [t("game_conflicts"), player.conflicts?.map((field) => labelFor("field", field)).join(t("between_names"))],
  ]);
}

/** @param {UserDetails} user */
export function renderSent(user) {
  return [renderMails(user), renderCommands(user)];
}

/** @param {UserDetails} user */
function renderMails({ mails }) {
  return renderSection("mails", mails, (mail) => [
    make("span", { class: "first" }, mailName(mail), " ", mailBadge(mail)),
    make("span", { class: "secondary" }, `${mail.to} · `, timeElement(mail.doneAt ?? mail.createdAt)),
    mail.lastError && mail.state !== "sent" && make("span", { class: "user-text bad" }, mail.lastError),
  ]);
}

/**
 * Render the host's own commands that followed decisions, with what the game replied; null where there are none.
 *
 * @param {UserDetails} user
 */
function renderCommands({ commands }) {
  if (commands.length === 0) {
    return null;
  }
  const nameServer = (/** @type {{ server: string }} */ { server }) => server && `${server} · `;
  return renderSection("commands", commands, (sent) => [
    make("span", { class: "first" }, make("code", {}, sent.command), " ", mailBadge(sent)),
    make("span", { class: "secondary" }, nameServer(sent), timeElement(sent.doneAt ?? sent.createdAt)),
    sent.reply && make("span", { class: "user-text" }, t("command_reply", { reply: sent.reply })),
    sent.lastError && sent.state !== "sent" && make("span", { class: "user-text bad" }, sent.lastError),
  ]);
}

/**
 * @param {UserDetails} user
 * @param {(session: string) => unknown} onEnd
 */
export function renderSessions({ sessions }, onEnd) {
  return renderSection("sessions", sessions, (session) => {
    const { id, audience, ip, startedAt, lastSeenAt, isCurrent } = session;
    const started = [t("session_from"), " ", timeElement(startedAt)];
    const seen = [t("session_seen"), " ", timeElement(lastSeenAt)];
    const own = isCurrent && badge(t("session_yours"), "good");
    return [
      make("span", { class: "first" }, nameDevice(session) || labelFor("audience", audience), " ", own),
      make(
        "span",
        { class: "secondary" },
        `${labelFor("audience", audience)} · `,
        ip && `${ip} · `,
        started,
        " · ",
        seen,
      ),
      may("users.manage") && button(t("session_end"), () => onEnd(id), "plain"),
    ];
  });
}

/** @param {UserDetails} user */
export function renderClients({ clients }) {
  return renderSection("clients", clients, ({ client, lastLoginAt }) => [
    make("span", { class: "first" }, client),
    make("span", { class: "secondary" }, timeElement(lastLoginAt)),
  ]);
}

/**
 * Render a heading with the number of entries, and a list of them if there are any.
 *
 * @template Entry
 * @param {string} name
 * @param {Entry[]} entries
 * @param {(entry: Entry) => Child} render
 */
function renderSection(name, entries, render) {
  const count = entries.length;
  const lines = entries.map((entry) => make("li", {}, render(entry)));
  return [make("h3", {}, t(`${name}_count`, { count })), count > 0 && make("ul", { class: "lines" }, lines)];
}
