// The parts of an applicant's card that are shown at once: the summary, what speaks against them, and the decisions.

import { button, definitionList, link, make } from "../../../shared/dom.js";
import { formatTime, hasText, languageName, t } from "../../../shared/i18n.js";
import { destructiveButtons, moreMenu } from "../../decisions/more-menu.js";
import { hashFor } from "../../hash.js";
import { may } from "../../permissions.js";
import { timeAgo } from "../../phrases.js";

/**
 * "approve_words" is an approval with a message.
 *
 * @typedef {"approve" | "reject" | "approve_words" | "ask" | "ban" | "delete"} ActionName
 */

/** @param {ListedUser} applicant */
export function renderSummary({ email, regTime, language, platform, chat }) {
  return definitionList([
    [t("email"), email],
    [t("registered"), `${formatTime(regTime)} · ${timeAgo(regTime)}`],
    [t("language"), language && languageName(language)],
    [t("platform"), hasText(platform) ? t(platform) : platform],
    [t("chat"), chat && `${chat.username ?? ""} (${chat.id})`],
  ]);
}

/**
 * Render what speaks against the applicant, or has to be known before a decision.
 *
 * @param {ListedUser} applicant
 */
export function renderWarnings({ rejections, signals, isOperator }) {
  return [
    isOperator && make("p", { class: "notice", "data-kind": "bad" }, t("operator_pending")),
    rejections !== null && rejections.count > 0 && renderRejections(rejections),
    shownSignals(signals).map(renderSignal),
  ];
}

/**
 * Return the signals but for earlier rejections, which are shown with their reason.
 *
 * @param {ListedUser["signals"]} signals
 */
export function shownSignals(signals) {
  return signals.filter(({ kind }) => kind !== "earlier_rejection");
}

/** @param {ListedUser["signals"][number]} signal */
function renderSignal({ kind, count, users, sources, seconds, usualSeconds }) {
  const names = users.map(({ username, status }) => [
    " ",
    link(hashFor("user", { name: username }), username),
    status === "approved" ? "" : ` (${t(`status_${status}`)})`,
  ]);
  const from = sources.map((source) => t(`source_${source}`)).join(", ");
  const values = { count, from, seconds: seconds ?? 0, usual: usualSeconds ?? 0 };
  const isCut = users.length < count && kind !== "earlier_ban";
  return make("p", { class: "notice" }, t(`signal_${kind}`, values), names, isCut && " …");
}

/** @param {NonNullable<ListedUser["rejections"]>} rejections */
function renderRejections({ count, lastAt, lastReason }) {
  return make(
    "p",
    { class: "notice", "data-kind": "bad" },
    t("rejected_before", { count, last: formatTime(lastAt) }),
    lastReason && [" ", make("q", {}, lastReason)],
  );
}

/**
 * Render the common decisions, the usual one first, and what asks one applicant: this order is the same everywhere.
 *
 * @param {(name: ActionName) => unknown} act
 * @param {boolean} canAsk
 * @param {Child} more a menu of what is needed less often
 */
export function renderActions(act, canAsk = false, more = null) {
  /** @type {(name: "approve" | "ask" | "reject", key: string, text: string, kind: string | null) => HTMLElement} */
  const choice = (name, key, text, kind) =>
    make(
      "button",
      { type: "button", class: kind, "data-act": name, onclick: () => act(name) },
      text,
      make("kbd", { "aria-hidden": "true" }, key),
    );
  return make(
    "div",
    { class: "actions" },
    choice("approve", "a", t("do_approve"), null),
    canAsk && choice("ask", "q", t("opens", { what: t("do_ask") }), "quiet"),
    choice("reject", "r", t("opens", { what: t("do_reject") }), "danger"),
    more,
  );
}

/**
 * Render what is needed less often: an approval with a message, the page of the user, and what does most harm.
 *
 * @param {import("../../view-context.js").ViewContext} context
 * @param {string} username
 * @param {(name: ActionName) => unknown} act
 */
export function renderMoreActions(context, username, act) {
  return moreMenu([
    may("users.review") && button(t("approve_words"), () => act("approve_words"), "plain"),
    link(context.hashFor("user", { name: username }), t("all_about"), { class: "button plain" }),
    destructiveButtons((decision) => act(decision)),
  ]);
}
