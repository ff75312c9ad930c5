// The question before a decision: why (in own words or a text that was saved), until when, and whether it is mailed.

import { button, fillWith, freshId, make } from "../../shared/dom.js";
import { moment, word } from "../../shared/i18n.js";
import { lastText, rememberText, removeText, savedTexts, saveText } from "./saved-reasons.js";
import { countNames } from "../phrases.js";

const HOUR = 3_600_000; // milliseconds
const ENDS = [
  ["", null],
  ["hour", HOUR],
  ["day", 24 * HOUR],
  ["week", 7 * 24 * HOUR],
  ["month", 30 * 24 * HOUR],
];
const ON_A_DAY = "date";
const LONGEST_REASON = 4000; // characters, as the API has it

/**
 * Ask. `decision`: "approve", "reject", "ban", "unban" or "delete". `key`: a key that means yes, too, while nothing is
 * written; so that the same key twice decides. `reason`: what stands there at first, else what was given last time;
 * `end` (epoch milliseconds, or null): the same for when a ban ends.
 *
 * Comes back with `{reason, silent, expiresAt}` (`expiresAt` of a ban alone: epoch milliseconds or null), or with null.
 */
export function askDecision({ decision, usernames, key = null, reason = null, hasEnd = decision === "ban", end = null }) {
  return new Promise((resolve) => new Question({ decision, usernames, key, reason, hasEnd, end }, resolve));
}

class Question {
  constructor({ decision, usernames, key, reason, hasEnd, end }, resolve) {
    Object.assign(this, { decision, key });
    this.answer = null;
    this.group = freshId("text");
    this.texts = make("div", { class: "texts" });
    this.reason = this.reasonField(reason ?? lastText(decision));
    this.silent = make("input", { type: "checkbox" });
    this.end = hasEnd ? new EndField(end) : null;
    const title = freshId("title");
    const form = make(
      "form",
      { novalidate: true, onsubmit: (event) => this.agree(event) },
      make("fieldset", { class: "field" }, make("legend", {}, word("reason")), this.texts, this.reason, this.keeping()),
      this.end?.element,
      make("label", { class: "option" }, this.silent, make("span", {}, word("silent"))),
      this.buttons(),
    );
    this.dialog = make(
      "dialog",
      { class: "decision", "aria-labelledby": title, onkeydown: (event) => this.hear(event) },
      make("h2", { id: title }, word(`ask_${decision}`, { names: countNames(usernames) })),
      usernames.length > 1 && make("p", { class: "who" }, usernames.join(word("between_names"))),
      form,
    );
    this.dialog.addEventListener("close", () => {
      this.dialog.remove();
      resolve(this.answer);
    });
    this.drawTexts();
    document.body.append(this.dialog);
    this.dialog.showModal();
    (this.texts.querySelector("input:checked") ?? this.reason).focus();
  }

  reasonField(value) {
    const changed = () => this.mark();
    const field = make("textarea", { rows: 3, maxlength: LONGEST_REASON, "aria-label": word("reason_words"), oninput: changed });
    field.value = value;
    return field;
  }

  keeping() {
    this.save = button(word("text_save"), () => this.saveReason(), "plain");
    this.remove = button(word("text_remove"), () => this.removeReason(), "plain");
    return make("div", { class: "keeping" }, this.save, this.remove);
  }

  buttons() {
    const yes = make("button", { class: this.decision === "approve" || this.decision === "unban" ? null : "danger" }, word(`do_${this.decision}`));
    return make("div", { class: "buttons" }, yes, button(word("cancel"), () => this.dialog.close(), "quiet"));
  }

  /** The saved texts, each with its digit, and none at all. */
  drawTexts() {
    const texts = ["", ...savedTexts(this.decision)];
    this.choices = texts.map((text, place) => {
      const input = make("input", { type: "radio", name: this.group, onchange: () => this.choose(text) });
      const digit = place <= 9 && make("kbd", { "aria-hidden": "true" }, String(place));
      return { text, input, element: make("label", { class: "option" }, input, digit, make("span", {}, text || word("no_reason"))) };
    });
    fillWith(this.texts, this.choices.map(({ element }) => element));
    this.mark();
  }

  choose(text) {
    this.reason.value = text;
    this.mark();
  }

  /** Which of the texts it is, if it is one. */
  mark() {
    const reason = this.reason.value.trim();
    const saved = this.choices.find(({ text }) => text === reason);
    this.choices.forEach((choice) => {
      choice.input.checked = choice === saved;
    });
    this.save.hidden = saved !== undefined;
    this.remove.hidden = saved === undefined || reason === "";
  }

  saveReason() {
    saveText(this.decision, this.reason.value.trim());
    this.drawTexts();
    this.reason.focus();
  }

  removeReason() {
    removeText(this.decision, this.reason.value.trim());
    this.drawTexts();
    this.reason.focus();
  }

  hear(event) {
    if (event.isComposing || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    const isWriting = event.target === this.reason;
    if (event.key === "Enter" && isWriting && !event.shiftKey) {
      event.preventDefault();
      this.agree(event);
    } else if (!isWriting && event.target.matches("[type=radio]") && !event.repeat) {
      this.press(event);
    }
  }

  /** On the texts: a digit chooses one, and the key that has asked agrees. */
  press(event) {
    const choice = /^[0-9]$/.test(event.key) ? this.choices[Number(event.key)] : undefined;
    if (choice) {
      event.preventDefault();
      this.choose(choice.text);
      choice.input.focus();
    } else if (event.key.toLowerCase() === this.key) {
      event.preventDefault();
      this.agree(event);
    }
  }

  agree(event) {
    event.preventDefault();
    if (this.end !== null && !this.end.isInOrder()) {
      return;
    }
    const reason = this.reason.value.trim();
    rememberText(this.decision, reason);
    const expiresAt = this.end === null ? {} : { expiresAt: this.end.value };
    this.answer = { reason, silent: this.silent.checked, ...expiresAt };
    this.dialog.close();
  }
}

/** Until when: for good, for a time, or to a moment. */
class EndField {
  constructor(end) {
    const [length, date] = [freshId("end"), freshId("date")];
    const choices = [...ENDS.map(([name]) => name), ON_A_DAY];
    this.length = make("select", { id: length, onchange: () => this.follow() }, choices.map((name) => make("option", { value: name }, word(`end_${name || "never"}`))));
    this.date = make("input", { id: date, type: "datetime-local", "aria-describedby": `${date}-error`, oninput: () => this.complain("") });
    this.error = make("p", { id: `${date}-error`, class: "error" });
    this.place = make("div", { hidden: true }, make("label", { for: date }, word("end_on")), this.date, this.error);
    this.told = make("p", { class: "hint" });
    this.element = make("div", { class: "field" }, make("label", { for: length }, word("end")), this.length, this.told, this.place);
    this.before = { end, text: end === null ? "" : toField(end) };
    if (end !== null) {
      this.length.value = ON_A_DAY;
      this.date.value = this.before.text;
      this.follow();
    }
  }

  get value() {
    if (this.length.value === ON_A_DAY) {
      const isUntouched = this.before.end !== null && this.date.value === this.before.text; // the field has no seconds
      return isUntouched ? this.before.end : new Date(this.date.value).getTime();
    }
    const [, length] = ENDS.find(([name]) => name === this.length.value);
    return length === null ? null : Date.now() + length;
  }

  follow() {
    this.place.hidden = this.length.value !== ON_A_DAY;
    this.told.textContent = this.place.hidden && this.value !== null ? word("ban_until", { until: moment(this.value) }) : "";
  }

  isInOrder() {
    const isFine = this.value === null || this.value > Date.now();
    this.complain(isFine ? "" : word("end_wrong"));
    if (!isFine) {
      this.date.focus();
    }
    return isFine;
  }

  complain(text) {
    this.error.textContent = text;
  }
}

/** A moment as a field for moments has it: "2026-01-31T18:00", on the clock of whoever looks. */
function toField(milliseconds) {
  const offset = new Date(milliseconds).getTimezoneOffset() * 60_000;
  return new Date(milliseconds - offset).toISOString().slice(0, 16);
}
