// Everything about one person who waits: answers, score, and the history of the name and the address.

import { button, link, make } from "../../../shared/dom.js";
import { facts } from "../../../shared/notice.js";
import { hasWord, moment, nameOf, word } from "../../../shared/i18n.js";
import { ago } from "../../phrases.js";

/** What the list knows already. */
export function summaryOf(person) {
  const { email, regTime, language, platform, chat, rejections } = person;
  return [
    facts([
      [word("email"), email],
      [word("registered"), `${moment(regTime)} · ${ago(regTime)}`],
      [word("language"), language && nameOf(language)],
      [word("platform"), hasWord(platform) ? word(platform) : platform],
      [word("chat"), chat && `${chat.username ?? ""} (${chat.id})`],
    ]),
    rejections?.count > 0 && warningOf(rejections),
  ];
}

function warningOf({ count, lastAt, lastReason }) {
  return make(
    "p",
    { class: "notice", "data-kind": "bad" },
    word("rejected_before", { count, last: moment(lastAt) }),
    lastReason && [" ", make("q", {}, lastReason)],
  );
}

/** What `GET /api/admin/user` adds. */
export function detailsOf(user) {
  return [
    user.questionnaire && questionnaireOf(user.questionnaire),
    make("h4", {}, word("history")),
    user.history.length ? historyOf(user.history) : make("p", { class: "quiet-text" }, word("history_none")),
    facts([
      [word("ip"), user.registrationIp],
      [word("email_proven"), user.isEmailVerified ? null : word("email_unproven")],
    ]),
  ];
}

function questionnaireOf({ score, maxScore, passScore, isPassed, requiresReview, summary, answers }) {
  const verdict = word(requiresReview ? "to_be_read" : isPassed ? "passed" : "failed");
  return [
    make("h4", {}, word("answers")),
    make(
      "p",
      { class: "score" },
      make("strong", {}, word("score", { score, maxScore })),
      ` ${word("score_needed", { passScore })} `,
      make("span", { class: "badge", "data-kind": requiresReview ? "wait" : isPassed ? "good" : "bad" }, verdict),
    ),
    summary.includes("\n") && make("p", { class: "quiet-text" }, summary.split("\n").slice(1).join("\n")), // it begins with the points
    make("ol", { class: "answers" }, answers.map(answerOf)),
  ];
}

function answerOf({ question, type, answers, points, maxPoints, note }) {
  const worth = points === null ? word("unread", { maxPoints }) : word("worth", { points, maxPoints });
  const given = answers.map((answer) => make(type === "text" ? "blockquote" : "li", {}, answer));
  return make(
    "li",
    {},
    make("p", { class: "question" }, question, make("span", { class: "worth", "data-is": points === null ? "unread" : null }, worth)),
    given.length === 0 ? make("p", { class: "quiet-text" }, word("not_answered")) : type === "text" ? given : make("ul", {}, given),
    note && make("p", { class: "quiet-text" }, word("note", { note })),
  );
}

/** Newest first; a decision about somebody else is here because of the same name or address. */
export function historyOf(history) {
  return make("ol", { class: "history" }, history.map(reviewOf));
}

function reviewOf({ username, transition, reason, banExpiresAt, operator, reviewedAt, isSameUser, isSameName, isSameEmail }) {
  const same = isSameUser ? null : isSameName && isSameEmail ? "same_both" : isSameName ? "same_name" : "same_email";
  return make(
    "li",
    {},
    make("span", { class: "badge", "data-kind": ["approve", "unban"].includes(transition) ? "good" : "bad" }, word(`done_${transition}`)),
    ` ${word("done_by", { operator, at: moment(reviewedAt) })}`,
    banExpiresAt && ` · ${word("ban_until", { until: moment(banExpiresAt) })}`,
    same && make("span", { class: "quiet-text" }, ` · ${word(same, { name: username })}`),
    reason && make("blockquote", {}, reason),
  );
}

/** What can be done at once. `act(name)`: "approve" or "reject". */
export function actionsFor(act) {
  const key = (name) => make("kbd", { "aria-hidden": "true" }, name);
  const choice = (name, letter, kind) => make("button", { type: "button", class: kind, "data-act": name, onclick: () => act(name) }, word(`do_${name}`), key(letter));
  return make(
    "div",
    { class: "actions" },
    choice("reject", "r", "danger"),
    choice("approve", "a", null),
  );
}

/** What is rarer: a message with the approval, and everything else that is known. */
export function furtherFor(office, username, act) {
  const all = link(office.address("user", { name: username }), word("all_about"));
  return make("p", { class: "further" }, button(word("approve_words"), () => act("approve_words"), "plain"), all);
}
