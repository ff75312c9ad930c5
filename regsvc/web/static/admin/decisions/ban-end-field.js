// The field for the end of a ban: permanent, after some time, or at a given time.

import { make, uniqueId } from "../../shared/dom.js";
import { formatTime, t } from "../../shared/i18n.js";

const HOUR = 3_600_000; // milliseconds
/** @type {Map<string, number | null>} */
const LENGTHS = new Map([
  ["", null],
  ["hour", HOUR],
  ["day", 24 * HOUR],
  ["week", 7 * 24 * HOUR],
  ["month", 30 * 24 * HOUR],
]);
const ON_A_DATE = "date";
const OPEN = "choose"; // a ban for ever is not what comes of not thinking about it

export class BanEndField {
  /** @param {number | null | undefined} end of the current ban, epoch milliseconds; undefined for a new one */
  constructor(end) {
    const length = uniqueId("end");
    const date = uniqueId("date");
    const names = [...(end === undefined ? [OPEN] : []), ...[...LENGTHS.keys()].filter(Boolean), ON_A_DATE, ""];
    const options = names.map((name) => make("option", { value: name }, t(`end_${name || "never"}`)));
    this.length = make("select", { id: length, onchange: () => this.update() }, options);
    this.date = make("input", {
      id: date,
      type: "datetime-local",
      "aria-describedby": `${date}-error`,
      oninput: () => this.showError(""),
    });
    this.error = make("p", { id: `${date}-error`, class: "error" });
    this.datePart = make("div", { hidden: true }, make("label", { for: date }, t("end_on")), this.date);
    this.hint = make("p", { class: "hint" });
    this.element = make(
      "div",
      { class: "field" },
      make("label", { for: length }, t("end")),
      this.length,
      this.hint,
      this.datePart,
      this.error,
    );
    this.length.setAttribute("aria-describedby", this.error.id);
    const hasEnd = end !== null && end !== undefined;
    this.initial = { end: hasEnd ? end : null, text: hasEnd ? toInputValue(end) : "" };
    this.length.value = end === undefined ? OPEN : "";
    if (hasEnd) {
      this.length.value = ON_A_DATE;
      this.date.value = this.initial.text;
      this.update();
    }
  }

  /** The end as epoch milliseconds, or null for a permanent ban. */
  get value() {
    if (this.length.value === ON_A_DATE) {
      // compared as text: the input has no seconds
      const isUnchanged = this.initial.end !== null && this.date.value === this.initial.text;
      return isUnchanged ? this.initial.end : new Date(this.date.value).getTime();
    }
    const length = LENGTHS.get(this.length.value) ?? null;
    return length === null ? null : Date.now() + length;
  }

  update() {
    const end = this.value;
    this.showError("");
    this.datePart.hidden = this.length.value !== ON_A_DATE;
    this.hint.textContent = this.datePart.hidden && end !== null ? t("ban_until", { until: formatTime(end) }) : "";
  }

  /** Show an error if no end was chosen, or one that is not in the future; return whether it is valid. */
  validate() {
    if (this.length.value === OPEN) {
      this.showError(t("end_missing"));
      this.length.focus();
      return false;
    }
    const isValid = this.value === null || this.value > Date.now();
    this.showError(isValid ? "" : t("end_wrong"));
    if (!isValid) {
      this.date.focus();
    }
    return isValid;
  }

  /** @param {string} text */
  showError(text) {
    this.error.textContent = text;
  }
}

/**
 * Return a time as the value of a `datetime-local` input, "2026-01-31T18:00", in the browser's time zone.
 *
 * @param {number} milliseconds
 */
function toInputValue(milliseconds) {
  const offset = new Date(milliseconds).getTimezoneOffset() * 60_000;
  return new Date(milliseconds - offset).toISOString().slice(0, 16);
}
