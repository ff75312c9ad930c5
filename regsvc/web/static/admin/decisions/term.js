// How long memberships last: as the API takes it, and in words.

import { formatTime, language, t } from "../../shared/i18n.js";

/**
 * Return a length in words: "30 days".
 *
 * @param {string} length as the API takes it, and the config tells it
 */
export function wordLength(length) {
  const [count, units] = length.split(" ");
  const format = new Intl.NumberFormat(language, { style: "unit", unit: units.replace(/s$/, ""), unitDisplay: "long" });
  return format.format(Number(count));
}

/**
 * Return how long the membership lasts that is given, or that no other is; "" where nothing is said.
 *
 * @param {{ until?: number | null, for?: string, decline?: boolean }} details of a pending decision
 */
export function describeTerm({ until, for: length, decline }) {
  if (decline) {
    return t("term_declined");
  }
  if (length !== undefined) {
    return t("term_for", { length: wordLength(length) });
  }
  if (until === undefined) {
    return "";
  }
  return until === null ? t("term_never") : t("term_until", { until: formatTime(until) });
}
