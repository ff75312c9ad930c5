// The texts of this page, in the language it was served in. The server chooses it: the visitor's choice (a cookie), the
// browser's preference, or the host's default.

import { setCookie } from "./cookies.js";

/** @type {Record<string, string>} */
const texts = JSON.parse(document.body.dataset.texts ?? "{}");
const COOKIE = "companion_language";

const language = document.documentElement.lang;
const languages = (document.body.dataset.languages ?? "").split(" ");

/** Sent to the window before the page reloads in another language: time to save what is only in memory. */
const LANGUAGE_SWITCH = "languageswitch";

/**
 * Return the text for a key of `[page.<name>]` or `[page.common]`, with each `{name}` replaced by its value.
 *
 * @param {string} key
 * @param {Record<string, unknown>} values
 */
function t(key, values = {}) {
  const text = texts[key];
  if (text === undefined) {
    throw new Error(`no text for ${key}`);
  }
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => String(values[name] ?? placeholder));
}

/**
 * Return whether there is a text for a key that is made of a value from the API, such as `status_${status}`.
 *
 * @param {string} key
 */
function hasText(key) {
  return key in texts;
}

/**
 * Return the keys that begin like this, in the order of the translations.
 *
 * @param {string} prefix
 */
function keysOf(prefix) {
  return Object.keys(texts).filter((key) => key.startsWith(prefix));
}

/**
 * Return a language's own name: "中文", "Français".
 *
 * @param {string} tag
 * @returns {string}
 */
function languageName(tag) {
  try {
    const name = new Intl.DisplayNames([tag], { type: "language" }).of(tag) ?? tag;
    return name[0].toLocaleUpperCase(tag) + name.slice(1); // a small letter is right within a sentence only
  } catch {
    return tag;
  }
}

/**
 * Remember the choice for all our pages, and reload this one in it.
 *
 * @param {string} tag
 */
function switchLanguage(tag) {
  remember(tag);
  dispatchEvent(new Event(LANGUAGE_SWITCH));
  location.reload();
}

/** @param {string} tag */
function remember(tag) {
  setCookie(COOKIE, tag);
}

/** Make the language of a link ("register?language=zh") the choice for all pages, and remove it from the address. */
function rememberFromAddress() {
  const address = new URL(location.href);
  const named = address.searchParams.get("language");
  if (named !== null) {
    if (named.toLowerCase().startsWith(language)) {
      remember(language); // unless the page fell back to another language
    }
    address.searchParams.delete("language");
    history.replaceState(history.state, "", address);
  }
}

rememberFromAddress();

/**
 * Format a time (epoch milliseconds) as the language does; "" for null. It is in the host's time zone if there is one,
 * with its distance to UTC where it differs from the visitor's.
 *
 * @param {number | null | undefined} milliseconds
 */
function formatTime(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) {
    return "";
  }
  const time = new Date(milliseconds);
  const timeZone = document.body.dataset.timezone;
  const text = time.toLocaleString(language, { dateStyle: "medium", timeStyle: "short", timeZone });
  const offset = offsetOf(time, timeZone);
  return offset === offsetOf(time) ? text : `${text} (${offset})`;
}

/**
 * Return the distance of a time zone to UTC, such as "UTC+1"; without a zone, the visitor's.
 *
 * @param {Date} time
 * @param {string} [timeZone]
 */
function offsetOf(time, timeZone) {
  const parts = new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "shortOffset" }).formatToParts(time);
  return parts.find(({ type }) => type === "timeZoneName")?.value.replace("GMT", "UTC");
}

const SECONDS_SHOWN = 90;
const HOUR = 3600; // seconds
const HOURS_SHOWN = 12;

/**
 * Say when a wait is over, within a sentence: "in 56 seconds", "in 3 hours", "tomorrow at 09:40".
 *
 * @param {number} seconds
 */
function formatWait(seconds) {
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  if (seconds <= SECONDS_SHOWN) {
    return format.format(Math.max(1, seconds), "second");
  }
  if (seconds < HOURS_SHOWN * HOUR) {
    return seconds < 2 * HOUR
      ? format.format(Math.ceil(seconds / 60), "minute")
      : format.format(Math.ceil(seconds / HOUR), "hour");
  }
  const end = new Date(Date.now() + seconds * 1000);
  const days = Math.round((new Date(end).setHours(0, 0, 0, 0) - new Date().setHours(0, 0, 0, 0)) / (24 * HOUR * 1000));
  const time = end.toLocaleTimeString(language, { timeStyle: "short" });
  return days > 1 ? formatTime(end.getTime()) : t("day_at", { day: format.format(days, "day"), time });
}

export {
  formatTime,
  formatWait,
  hasText,
  keysOf,
  LANGUAGE_SWITCH,
  language,
  languageName,
  languages,
  switchLanguage,
  t,
  texts,
};
