// The fields for the end of a ban or a membership: never, after some time, or at a given time.

import { config } from "../../shared/config.js";
import { make, uniqueId } from "../../shared/dom.js";
import { formatTime, t } from "../../shared/i18n.js";
import { wordLength } from "./term.js";

const HOUR = 3_600_000; // milliseconds
const DAY = 24 * HOUR;
const BAN_LENGTHS = { hour: HOUR, day: DAY, week: 7 * DAY, month: 30 * DAY };
const MEMBERSHIP_DAYS = [7, 30, 90];
const NEVER = "never";
const ON_A_DATE = "date";
const OPEN = "choose"; // a ban for ever is not what comes of not thinking about it
const USUAL = "usual";

/**
 * @typedef {object} EndChoice
 * @property {string} name
 * @property {string} [text] without it, the text `end_<name>`
 * @property {number} [length] milliseconds until the end
 */

class EndField {
  /**
   * @param {string} label
   * @param {EndChoice[]} choices
   * @param {{ chosen: string, end?: number | null, start?: () => number }} options `end`: that of now; `start`: what a
   *   length begins at
   */
  constructor(label, choices, { chosen, end = null, start = Date.now }) {
    const id = uniqueId("end");
    const date = uniqueId("date");
    this.start = start;
    this.lengths = new Map(choices.map(({ name, length }) => [name, length]));
    const options = choices.map(({ name, text = t(`end_${name}`) }) => make("option", { value: name }, text));
    this.length = make("select", { id, onchange: () => this.update() }, options);
    this.date = make("input", {
      id: date,
      type: "datetime-local",
      "aria-describedby": `${date}-error`,
      oninput: () => this.showError(""),
    });
    this.error = make("p", { id: `${date}-error`, class: "error" });
    this.datePart = make("div", { hidden: true }, make("label", { for: date }, t("end_on")), this.date);
    this.hint = make("p", { class: "hint", id: `${id}-hint` });
    this.element = make(
      "div",
      { class: "field" },
      make("label", { for: id }, label),
      this.length,
      this.hint,
      this.datePart,
      this.error,
    );
    this.length.setAttribute("aria-describedby", `${this.error.id} ${this.hint.id}`);
    this.initial = { end, text: end === null ? "" : toInputValue(end) };
    this.length.value = chosen;
    this.date.value = this.initial.text;
    this.update();
  }

  /** The end as epoch milliseconds, or null for none. */
  get value() {
    if (this.length.value === ON_A_DATE) {
      // compared as text: the input has no seconds
      const isUnchanged = this.initial.end !== null && this.date.value === this.initial.text;
      return isUnchanged ? this.initial.end : new Date(this.date.value).getTime();
    }
    const length = this.lengths.get(this.length.value);
    return length === undefined ? null : this.start() + length;
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

export class BanEndField extends EndField {
  /** @param {number | null | undefined} end of the current ban, epoch milliseconds; undefined for a new one */
  constructor(end) {
    const lengths = Object.entries(BAN_LENGTHS).map(([name, length]) => ({ name, length }));
    const chosen = end === undefined ? OPEN : end === null ? NEVER : ON_A_DATE;
    const first = end === undefined ? [{ name: OPEN }] : [];
    super(t("end"), [...first, ...lengths, { name: ON_A_DATE }, { name: NEVER }], { chosen, end });
  }
}

export class MembershipEndField extends EndField {
  /**
   * @param {{ isNew?: boolean, end?: number | null }} options `isNew`: of a membership that an approval begins; `end`:
   *   that of now, to which a length adds; undefined: several
   */
  constructor({ isNew = false, end }) {
    const usual = config.memberFor;
    const first = isNew && usual ? [{ name: USUAL, text: t("end_usual", { length: wordLength(usual) }) }] : [];
    const days = MEMBERSHIP_DAYS.map((count) => lengthOf(`${count} days`, count * DAY));
    const others = usual && !isNew && !days.some(({ name }) => name === usual) ? [lengthOf(usual)] : [];
    super(t("membership_lasts"), [...first, { name: NEVER }, ...others, ...days, { name: ON_A_DATE }], {
      chosen: isNew ? USUAL : (usual ?? "30 days"),
      end,
      start: () => Math.max(Date.now(), end ?? 0),
    });
    this.isOfMany = end === undefined && !isNew;
    this.update();
  }

  /** The fields of the request that say so: what is usual needs none. */
  get term() {
    const { value: name } = this.length;
    if (name === USUAL) {
      return {};
    }
    return name === NEVER || name === ON_A_DATE ? { until: this.value } : { for: name };
  }

  update() {
    super.update();
    if (this.isOfMany && this.lengths.get(this.length.value) !== undefined) {
      this.hint.textContent = t("membership_adds");
    }
  }
}

/**
 * @param {string} name as the API takes it
 * @param {number} [length] milliseconds
 */
function lengthOf(name, length) {
  return { name, length, text: wordLength(name) };
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
