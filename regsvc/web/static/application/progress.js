// The way of an application: received, in review, decided, joining the game.

import { linkContact } from "../shared/config.js";
import { icon, make } from "../shared/dom.js";
import { formatTime, language, t } from "../shared/i18n.js";

const MINUTE = 60; // seconds
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** @type {Record<string, string>} */
const ICONS = { done: "i-check", current: "i-clock", bad: "i-x" };

/**
 * @typedef {object} Stage
 * @property {"done" | "current" | "bad" | "next"} state
 * @property {string} title
 * @property {Array<string | number | null | false>} lines those that are falsy are left out
 */

/**
 * Make the list of stages. The current one is marked for screen readers, too.
 *
 * @param {Application} application
 * @param {Config} config
 */
export function progress(application, config) {
  const stages = [
    { state: "done", title: t("stage_received"), lines: [formatTime(application.receivedAt)] },
    ...(application.status === "pending" ? waiting(application, config) : decided(application)),
  ];
  return make(
    "ol",
    { class: "stages" },
    stages.map(({ state, title, lines }) =>
      make(
        "li",
        { "data-state": state, "aria-current": state === "current" || state === "bad" ? "step" : null },
        make("span", { class: "mark-of-stage" }, ICONS[state] && icon(ICONS[state])),
        make("strong", {}, title),
        lines.filter(Boolean).map((line) => make("p", { class: "lines" }, linkContact(String(line)))),
      ),
    ),
  );
}

/**
 * @param {Application} application
 * @param {Config} config
 * @returns {Stage[]}
 */
function waiting(application, { registration, authme }) {
  const { place, waiting, usualSeconds, email, hasPassword, gameAddress, answerBy } = application;
  const isMailed = registration.email === "verified" && email !== null; // another user may have proven it since
  const isPasswordMailed =
    !hasPassword && registration.password !== "off" && registration.passwordReset === "mail" && authme.enabled;
  return [
    {
      state: "current",
      title: t(answerBy === null ? "stage_review" : "status_asked"),
      lines: [
        place !== null && t(place === 1 ? "place_first" : "place", { place, waiting }),
        answerBy === null && usualSeconds !== null && t("usual_time", { time: formatDuration(usualSeconds) }),
      ],
    },
    {
      state: "next",
      title: t("stage_decision"),
      lines: isMailed ? [t("decision_mailed", { email })] : [t("decision_here"), hasPassword && t("password_kept")],
    },
    {
      state: "next",
      title: t("stage_join"),
      lines: [isPasswordMailed && t("password_then"), gameAddress && t("stage_join_at", { address: gameAddress })],
    },
  ];
}

/**
 * @param {Application} application
 * @returns {Stage[]}
 */
function decided({ status, reason, reviewedAt, banExpiresAt }) {
  const lines = [formatTime(reviewedAt), reason && t("reason", { reason })];
  const title = t(`status_${status}`);
  if (status === "approved") {
    return [
      { state: "done", title, lines },
      {
        state: "current",
        title: t("stage_join"),
        lines: [],
      },
    ];
  }
  if (status === "banned") {
    return [
      {
        state: "bad",
        title,
        lines: [...lines, banExpiresAt && t("ban_until", { until: formatTime(banExpiresAt) }), t("banned_advice")],
      },
    ];
  }
  return [{ state: "bad", title, lines: [formatTime(reviewedAt)] }]; // why, and what then, is in a panel of its own
}

/**
 * Format a duration as people say it: "45 minutes", "2 hours", "3 days".
 *
 * @param {number} seconds
 */
function formatDuration(seconds) {
  const [size, unit] = seconds < 2 * HOUR ? [MINUTE, "minute"] : seconds < 2 * DAY ? [HOUR, "hour"] : [DAY, "day"];
  const format = new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" });
  return format.format(Math.max(1, Math.round(seconds / size)));
}
