// Fields and forms: a label, a hint, an error message, and a button that shows when it is busy.

import { asRefusal } from "./api.js";
import { make, uniqueId } from "./dom.js";
import { t } from "./i18n.js";
import { countdown, notice } from "./notice.js";

/**
 * @typedef {object} FieldOptions
 * @property {string | ((value: string) => string)} [hint] a text, or a function of the value
 * @property {(value: string) => string} [check] returns the error in a value, or ""; the API checks everything again
 * @property {string} [value]
 * @property {boolean} [isOptional]
 * @property {boolean} [isTrimmed] whether spaces around the value are removed
 */

/** One field with its label, a hint below it, and a place for its error message. */
export class Field {
  /**
   * @param {string} name as in the API, whose refusals refer to it
   * @param {string} label
   * @param {FieldOptions & Attributes} options others are attributes of the input; `type: "textarea"` makes a large one
   */
  constructor(
    name,
    label,
    { hint = "", check = () => "", value = "", isOptional = false, isTrimmed = false, ...attributes } = {},
  ) {
    const id = uniqueId(name);
    this.name = name;
    this.check = check;
    this.isOptional = isOptional;
    this.hint = make("p", { id: `${id}-hint`, class: "hint" });
    this.error = make("p", { id: `${id}-error`, class: "error" });
    const { type = "text", ...others } = attributes;
    const described = {
      id,
      name,
      "aria-describedby": `${id}-error ${id}-hint`,
      "aria-required": isOptional ? null : "true",
    };
    this.input =
      type === "textarea"
        ? make("textarea", { ...described, rows: 4, ...others })
        : make("input", { ...described, type, autocapitalize: "none", spellcheck: "false", ...others });
    this.input.value = value;
    this.label = make("label", { for: id }, label, isOptional && optionalMark());
    this.element = make("div", { class: "field" }, this.label, this.input, this.error, this.hint);
    this.hintFor = typeof hint === "function" ? hint : () => hint;
    this.input.addEventListener("input", () => this.refresh());
    if (isTrimmed) {
      this.input.addEventListener("change", () => this.trim());
    }
    this.isTrimmed = isTrimmed;
    this.refresh();
  }

  /** Remove spaces around what was typed, visibly: they are not part of it. */
  trim() {
    if (this.value !== this.value.trim()) {
      this.value = this.value.trim();
    }
  }

  /** Update the hint and drop the error: the value, or something that the hint or the check depends on, has changed. */
  refresh() {
    this.showError("");
    this.hint.textContent = this.hintFor(this.value);
  }

  get value() {
    return this.input.value;
  }

  set value(value) {
    this.input.value = value;
    this.input.dispatchEvent(new Event("input"));
  }

  /** Return what is wrong with the value; "" if nothing is. */
  validate() {
    if (this.isTrimmed) {
      this.trim();
    }
    if (!this.value) {
      return this.isOptional ? "" : t("missing");
    }
    return this.check(this.value);
  }

  /** @param {string} text "" to remove the message */
  showError(text) {
    this.error.textContent = text;
    if (text) {
      this.input.setAttribute("aria-invalid", "true");
    } else {
      this.input.removeAttribute("aria-invalid");
    }
  }

  focus() {
    this.input.focus();
  }
}

/** A group of radio buttons or checkboxes; its value is the list of the chosen values. */
export class Choice {
  /**
   * @param {string} name
   * @param {string} label
   * @param {Array<{ value: any, text: string }>} options
   * @param {{ isMultiple?: boolean, chosen?: any[], hint?: string, check?: (value: any[]) => string,
   *   isOptional?: boolean }} settings
   */
  constructor(
    name,
    label,
    options,
    { isMultiple = false, chosen = [], hint = "", check = () => "", isOptional = false } = {},
  ) {
    const id = uniqueId(name);
    this.name = name;
    this.check = check;
    this.isOptional = isOptional;
    this.inputs = options.map(({ value, text }) => {
      const input = make("input", { type: isMultiple ? "checkbox" : "radio", name: id, value });
      input.checked = chosen.includes(value);
      return { value, input, element: make("label", { class: "option" }, input, make("span", {}, text)) };
    });
    this.error = make("p", { id: `${id}-error`, class: "error" });
    this.element = make(
      "fieldset",
      { class: "field", "aria-describedby": `${id}-error`, onchange: () => this.showError("") },
      make("legend", {}, label, isOptional && optionalMark()),
      hint && make("p", { class: "hint" }, hint),
      this.inputs.map(({ element }) => element),
      this.error,
    );
  }

  get value() {
    return this.inputs.filter(({ input }) => input.checked).map(({ value }) => value);
  }

  /** Return what is wrong with the choice; "" if nothing is. */
  validate() {
    if (this.value.length === 0) {
      return this.isOptional ? "" : t("choose");
    }
    return this.check(this.value);
  }

  /** @param {string} text */
  showError(text) {
    this.error.textContent = text;
  }

  focus() {
    (this.inputs.find(({ input }) => input.checked) ?? this.inputs[0]).input.focus();
  }
}

/**
 * @typedef {object} FormOptions
 * @property {Array<Field | Choice>} fields
 * @property {string} submit the label of the button
 * @property {(values: Record<string, any>) => unknown} send what it throws as a Refusal is shown at its field, or else
 *   above the form; everything typed stays
 * @property {Child[]} [others] elements between the fields and the button
 * @property {string | null} [kind] of the button
 * @property {(refusal: import("./api.js").Refusal) => boolean} [onRefusal] returns whether it has handled the refusal
 */

export class Form {
  /** @param {FormOptions} options */
  constructor({ fields, submit, send, others = [], kind = null, onRefusal = () => false }) {
    this.fields = fields;
    this.send = send;
    this.onRefusal = onRefusal;
    this.isBusy = false;
    this.isHeld = false;
    this.submit = make("button", { class: kind }, submit);
    this.label = submit;
    const elements = fields.map((field) => field.element);
    const onsubmit = (/** @type {Event} */ event) => this.handleSubmit(event);
    this.element = make("form", { novalidate: true, onsubmit }, elements, others, this.submit);
  }

  /** @returns {Record<string, any>} */
  get values() {
    return Object.fromEntries(this.fields.map((field) => [field.name, field.value]));
  }

  /** @param {Event} event */
  async handleSubmit(event) {
    event.preventDefault();
    if (this.isBusy || this.isHeld) {
      return;
    }
    notice.clear(); // it was about the try before
    if (!this.validate()) {
      return;
    }
    this.setBusy(true);
    notice.show(t("sending"), "spoken"); // the button shows it
    try {
      await this.send(this.values);
      notice.clearIf(t("sending"));
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal.isLoggedOut) {
        return; // the page shows its login
      }
      notice.clear();
      if (!this.onRefusal(refusal)) {
        this.showRefusal(refusal);
      }
    } finally {
      this.setBusy(false);
    }
  }

  /**
   * Let the form be sent again only after this time.
   *
   * @param {number} seconds
   */
  hold(seconds) {
    countdown(seconds, (left) => {
      this.isHeld = left > 0;
      this.submit.setAttribute("aria-disabled", String(this.isHeld));
      return this.submit.isConnected;
    });
  }

  /** Show every error at its field and move the focus to the first; return whether there was none. */
  validate() {
    const invalid = this.fields.filter((field) => {
      const error = field.element.hidden ? "" : field.validate();
      field.showError(error);
      return error;
    });
    if (invalid.length > 0) {
      this.pointOut(invalid[0], invalid[0].error.textContent ?? "");
    }
    return invalid.length === 0;
  }

  /**
   * Show a refusal at the field it is about, or else above the form.
   *
   * @param {import("./api.js").Refusal} refusal
   */
  showRefusal(refusal) {
    const field = this.fields.find(({ name }) => name === refusal.field);
    if (field) {
      this.pointOut(field, refusal.message);
    } else {
      this.submit.before(notice.element); // beside what was pressed; what is moved with its text is not read aloud
      notice.showRefusal(refusal);
    }
  }

  /**
   * Show an error at a field and move the focus there, where screen readers read it. Where the focus is there already,
   * and of a group, they do not: then the notice says it, until something is changed.
   *
   * @param {Field | Choice} field
   * @param {string} error
   */
  pointOut(field, error) {
    const before = document.activeElement;
    field.showError(error);
    field.focus();
    if (field instanceof Choice || document.activeElement === before) {
      notice.show(error, "spoken");
      this.element.addEventListener("input", () => notice.clearIf(error), { once: true });
    }
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.isBusy = isBusy;
    // not disabled: that would take the focus away
    this.submit.setAttribute("aria-disabled", String(isBusy || this.isHeld));
    this.element.setAttribute("aria-busy", String(isBusy));
    this.submit.textContent = isBusy ? t("sending") : this.label;
  }
}

function optionalMark() {
  return make("span", { class: "optional" }, ` ${t("optional")}`);
}
