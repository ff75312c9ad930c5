// The parts of an applicant's card that are loaded with the details: answers, and the history of the name and the
// address.

import { button, definitionList, link, make, uniqueId } from "../../../shared/dom.js";
import { formatTime, t } from "../../../shared/i18n.js";
import { badge } from "../../badges.js";
import { hashFor } from "../../hash.js";
import { may } from "../../permissions.js";

/** @typedef {NonNullable<UserDetails["questionnaire"]>} QuestionnaireResult */
/** @typedef {QuestionnaireResult["answers"][number]} Answer */
/** @typedef {ReturnType<typeof import("../../additions.js").givePoints>} Judge */
/** @typedef {UserDetails["history"][number]} Review */
/** @typedef {UserDetails["questions"][number]} AskedQuestion */

/**
 * Render the answers that `GET /api/admin/user` adds.
 *
 * @param {UserDetails} user
 * @param {"h3" | "h4"} level of the heading
 * @param {Judge} judge
 */
export function renderAnswers(user, level, judge) {
  return user.questionnaire && renderQuestionnaire(user.questionnaire, user, level, judge);
}

/**
 * Render what the team asked the applicant, and the answers, newest first; null where nothing was asked.
 *
 * @param {UserDetails} user
 * @param {"h3" | "h4"} level of the heading
 */
export function renderConversation({ questions, waitingFor }, level) {
  const isOpen = waitingFor === "applicant" && make("p", { class: "notice" }, t("waits_for_applicant"));
  const items = questions.map(renderAsked);
  return (
    items.length > 0 && [make(level, {}, t("asked_questions")), isOpen, make("ol", { class: "history asked" }, items)]
  );
}

/** @param {AskedQuestion} asked */
function renderAsked({ question, author, askedAt, answer, answeredAt, isSameUser }) {
  return make(
    "li",
    {},
    t("note_by", { author, at: formatTime(askedAt) }),
    !isSameUser && make("span", { class: "quiet-text" }, ` · ${t("asked_another")}`),
    make("blockquote", {}, question),
    answer === null
      ? make("p", { class: "quiet-text" }, t("unanswered"))
      : [t("answered_at", { at: formatTime(answeredAt) }), make("blockquote", { class: "reply" }, withLinks(answer))],
  );
}

/**
 * Return where the user came from, as entries of a list of facts.
 *
 * @param {UserDetails} user
 * @returns {Array<[string, Child]>}
 */
export function originFacts({ registrationIp, gameAddresses, email, isEmailVerified }) {
  const inGame = new Set(gameAddresses.map(({ address }) => address));
  return [
    [t("ip"), registrationIp && link(hashFor("users", { search: registrationIp }), registrationIp)],
    [t("ip_in_game"), [...inGame].join(t("between_names"))],
    [t("email_proven"), isEmailVerified || !email ? null : t("email_unproven")],
  ];
}

/**
 * Render what else `GET /api/admin/user` adds: where the user came from, and the decisions before.
 *
 * @param {UserDetails} user
 * @param {"h3" | "h4"} level of the heading
 */
export function renderRecord(user, level) {
  return [definitionList(originFacts(user)), renderHistory(user, level)];
}

/**
 * Render the history, newest first; decisions about other users are in it because of the same name or address.
 *
 * @param {UserDetails} user
 * @param {"h3" | "h4"} level of the heading
 */
export function renderHistory({ history }, level) {
  const none = make("p", { class: "quiet-text" }, t("history_none"));
  const reviews = make("ol", { class: "history" }, history.map(renderReview));
  return [make(level, {}, t("history")), history.length ? reviews : none];
}

/**
 * @param {QuestionnaireResult} result
 * @param {UserDetails} user
 * @param {"h3" | "h4"} level
 * @param {Judge} judge
 */
function renderQuestionnaire(result, { earlierAnswers, status }, level, judge) {
  const { score, maxScore, passScore, isPassed, requiresReview, summary, answers } = result;
  const before = new Map(earlierAnswers?.map((answer) => [answer.question, answer.answers]));
  const verdict = t(requiresReview ? "to_be_read" : isPassed ? "passed" : "failed");
  const kind = requiresReview ? "wait" : isPassed ? "good" : "bad";
  const isOpen = status === "pending";
  const unread = isOpen ? answers.filter(({ points }) => points === null) : [];
  // the summary is in the applicant's language; its first line repeats the score, the others what the answers tell
  const notes = answers.length ? "" : summary.split("\n").slice(1).join("\n");
  return [
    make(level, {}, t("answers")),
    make(
      "p",
      { class: "score" },
      make("progress", { value: Math.max(0, score), max: maxScore, "aria-hidden": "true" }),
      make("strong", {}, t("score", { score, maxScore })),
      ` ${t("score_needed", { passScore })} `,
      badge(verdict, kind),
    ),
    unread.length > 0 && make("p", { class: "quiet-text" }, describeUnread(unread)),
    notes && make("p", { class: "quiet-text" }, notes),
    make(
      "ol",
      { class: "answers" },
      answers.map((answer) => renderAnswer(answer, before.get(answer.question), isOpen ? judge : null)),
    ),
  ];
}

/** @param {Answer[]} unread */
function describeUnread(unread) {
  const openPoints = unread.reduce((sum, { maxPoints }) => sum + maxPoints, 0);
  return t(openPoints > 0 ? "answers_unread_points" : "answers_unread", { count: unread.length, openPoints });
}

/**
 * Describe the points of an answer; null for a question that brings none, and for what nobody read before the decision.
 *
 * @param {Answer} answer
 * @param {boolean} isOpen
 */
function describePoints({ points, maxPoints }, isOpen) {
  if (points === null) {
    if (!isOpen) {
      return null;
    }
    return maxPoints > 0 ? t("unread", { maxPoints }) : t("to_be_read");
  }
  return points === 0 && maxPoints === 0 ? null : t("worth", { points, maxPoints });
}

/**
 * @param {Answer} answer
 * @param {string[] | undefined} before what was answered to it before
 * @param {Judge | null} judge null: the user is decided about
 */
function renderAnswer(answer, before, judge) {
  const { question, type, answers, points, note } = answer;
  const isText = type === "text";
  const text = describePoints(answer, judge !== null);
  const score = text && make("span", { class: "worth", "data-is": points === null ? "unread" : null }, text);
  const given = answers.map((words) => (isText ? make("blockquote", {}, withLinks(words)) : make("li", {}, words)));
  const none = make("p", { class: "quiet-text" }, t("not_answered"));
  return make(
    "li",
    {},
    make("p", { class: "question" }, make("span", {}, question), score),
    given.length === 0 ? none : isText ? given : make("ul", {}, given),
    note && make("p", { class: "quiet-text" }, t("note", { note })),
    judge && isText && given.length > 0 && may("users.review") && renderJudgement(answer, judge),
    before && renderEarlier(before, before.join() === answers.join()),
  );
}

/**
 * Return the text with its web addresses as links, which tell those pages nothing of ours.
 *
 * @param {string} text
 */
function withLinks(text) {
  const parts = text.split(/(https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]])/);
  return parts.map((part, index) => {
    const attributes = { href: part, target: "_blank", rel: "noreferrer nofollow ugc" };
    return index % 2 === 1 ? make("a", attributes, part) : part;
  });
}

/**
 * Ask for the points of a text, or only that it was read where it brings none; null once it was.
 *
 * @param {Answer} answer
 * @param {Judge} judge
 */
function renderJudgement(answer, judge) {
  const { questionId, points, maxPoints } = answer;
  if (maxPoints > 0) {
    return renderPoints(answer, judge);
  }
  const markRead = () => judge.give(questionId, 0);
  return points === null && make("p", { class: "points" }, button(t("answer_read"), markRead, "quiet"));
}

/**
 * @param {Answer} answer
 * @param {Judge} judge
 */
function renderPoints({ questionId, points, maxPoints }, judge) {
  const id = uniqueId("points");
  const input = make("input", { id, type: "number", min: "0", max: `${maxPoints}`, required: true });
  judge.keepTyped(input, questionId, `${points ?? ""}`);
  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    judge.give(questionId, Number(input.value));
  };
  const label = make("label", { for: id }, t("points_label", { maxPoints }));
  const button = make("button", { type: "submit", class: "quiet" }, t("points_give"));
  return make("form", { class: "points", onsubmit }, label, " ", input, " ", button);
}

/**
 * @param {string[]} answers
 * @param {boolean} isSame as now
 */
function renderEarlier(answers, isSame) {
  if (isSame) {
    return make("p", { class: "quiet-text" }, t("answer_same"));
  }
  const words = answers.length > 0 ? answers.join("\n") : t("answer_skipped_before");
  const heading = make("p", {}, badge(t("answer_changed"), "wait"), ` ${t("answered_before")}`);
  return make("div", { class: "earlier" }, heading, make("blockquote", {}, words));
}

/** @param {Review} review */
function renderReview(review) {
  const { username, transition, reason, banExpiresAt, operator, reviewedAt } = review;
  const same = sameKey(review);
  const kind = ["approve", "unban"].includes(transition) ? "good" : "bad";
  return make(
    "li",
    {},
    badge(t(`done_${transition}`), kind),
    ` ${t("done_by", { operator, at: formatTime(reviewedAt) })}`,
    banExpiresAt && ` · ${t("ban_until", { until: formatTime(banExpiresAt) })}`,
    same && make("span", { class: "quiet-text" }, ` · ${t(same, { name: username })}`),
    reason && make("blockquote", {}, reason),
  );
}

/** @param {Review} review */
function sameKey({ isSameUser, isSameName, isSameEmail }) {
  if (isSameUser) {
    return null;
  }
  if (isSameName) {
    return isSameEmail ? "same_both" : "same_name";
  }
  return "same_email";
}
