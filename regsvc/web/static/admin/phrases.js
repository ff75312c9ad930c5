// Phrases about users, times and decisions.

import { hasText, language, t } from "../shared/i18n.js";

const MAX_NAMED = 3; // of more users than this the first ones are named

/** @type {Array<[Intl.RelativeTimeFormatUnit, number]>} */
const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];
const relative = new Intl.RelativeTimeFormat(language, { numeric: "always", style: "short" });

/**
 * "3 hr. ago"
 *
 * @param {number} milliseconds since 1970
 */
export function timeAgo(milliseconds) {
  const passed = Date.now() - milliseconds;
  const unit = UNITS.find(([, length]) => passed >= length);
  return unit === undefined ? t("just_now") : relative.format(-Math.floor(passed / unit[1]), unit[0]);
}

/**
 * "3 hr"
 *
 * @param {number} seconds
 */
export function formatDuration(seconds) {
  const [unit, length] = UNITS.find((candidate) => seconds * 1000 >= candidate[1]) ?? UNITS[2];
  const format = new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "short" });
  return format.format(Math.max(1, Math.round((seconds * 1000) / length)));
}

/**
 * "1 day", "7 days"
 *
 * @param {number} count
 */
export function countDays(count) {
  return new Intl.NumberFormat(language, { style: "unit", unit: "day", unitDisplay: "long" }).format(count);
}

/**
 * "Alice, Bob and 12 more"
 *
 * @param {string[]} usernames
 */
export function listNames(usernames) {
  if (usernames.length <= MAX_NAMED) {
    return usernames.join(t("between_names"));
  }
  const first = usernames.slice(0, MAX_NAMED - 1).join(t("between_names"));
  return t("names_and_more", { names: first, count: usernames.length - MAX_NAMED + 1 });
}

/**
 * "Alice", or "12 people"
 *
 * @param {string[]} usernames
 */
export function countNames(usernames) {
  return usernames.length === 1 ? usernames[0] : t("people", { count: usernames.length });
}

/**
 * "Approved"; also for deleted users.
 *
 * @param {string} status
 */
export function statusName(status) {
  return hasText(`status_${status}`) ? t(`status_${status}`) : status;
}

/**
 * "approved", within a sentence
 *
 * @param {string} status
 */
export function statusInSentence(status) {
  const name = statusName(status);
  return name.slice(0, 1).toLocaleLowerCase(language) + name.slice(1);
}

/**
 * Return what a list without rows says: what was searched for, if anything was.
 *
 * @param {unknown} search
 * @param {string} otherwise the key of the text without a search
 */
export function describeNone(search, otherwise) {
  return search ? t("nothing_matches", { search: String(search) }) : t(otherwise);
}

/**
 * "Approve Alice"
 *
 * @param {{ decision: PendingName, usernames: string[] }} entry
 */
export function describeDecision({ decision, usernames }) {
  return t(`will_${decision}`, { names: listNames(usernames) });
}

/**
 * Return the text for a value of the API, or the value itself if there is no text for it (yet).
 *
 * @param {string} group
 * @param {unknown} value
 */
export function labelFor(group, value) {
  const key = `${group}_${value}`;
  return hasText(key) ? t(key) : String(value);
}

/**
 * "1,000,000"
 *
 * @param {number} number
 */
export function formatNumber(number) {
  return number.toLocaleString(language);
}
