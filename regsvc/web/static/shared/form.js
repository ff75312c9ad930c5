// Fields and forms: a label, a hint, what is wrong, and a button that says when it is busy.

import { freshId, make } from "./dom.js";
import { Refusal } from "./api.js";
import { notice } from "./notice.js";
import { word } from "./i18n.js";

/**
 * One field with its label, a hint below it, and a place for what is wrong with it.
 *
 * `name` is the API's (refusals name it). `input`: attributes of the input element; `type: "textarea"` makes a large one.
 * `hint`: text, or a function from the value to text, for a hint that follows what is typed.
 * `check`: from the value to what is wrong with it, or "" (the API checks everything once more).
 */
export class Field {
  constructor(name, label, { hint = "", check = () => "", value = "", isOptional = false, ...input } = {}) {
    const id = freshId(name);
    this.name = name;
    this.check = check;
    this.isOptional = isOptional;
    this.hint = make("p", { id: `${id}-hint`, class: "hint" });
    this.error = make("p", { id: `${id}-error`, class: "error" });
    const { type = "text", ...others } = input;
    const described = { id, "aria-describedby": `${id}-error ${id}-hint`, "aria-required": isOptional ? null : "true" };
    this.input =
      type === "textarea"
        ? make("textarea", { ...described, rows: 4, ...others })
        : make("input", { ...described, type, autocapitalize: "none", spellcheck: "false", ...others });
    this.input.value = value;
    this.label = make("label", { for: id }, label, isOptional && make("span", { class: "optional" }, ` ${word("optional")}`));
    this.element = make("div", { class: "field" }, this.label, this.input, this.error, this.hint);
    this.hintFor = typeof hint === "function" ? hint : () => hint;
    this.input.addEventListener("input", () => this.follow());
    this.follow();
  }

  /** Something that its hint or its check depends on has changed. */
  follow() {
    this.complain("");
    this.hint.textContent = this.hintFor(this.value);
  }

  get value() {
    return this.input.value;
  }

  set value(value) {
    this.input.value = value;
    this.input.dispatchEvent(new Event("input"));
  }

  /** What is wrong, in words; "" for nothing. */
  fault() {
    return !this.value && !this.isOptional ? word("missing") : this.value ? this.check(this.value) : "";
  }

  complain(text) {
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

/** A group of radio buttons or checkboxes. `options`: `[{value, text}]`; `value` is a list of the chosen ones. */
export class Choice {
  constructor(name, label, options, { isMultiple = false, chosen = [], hint = "", check = () => "", isOptional = false } = {}) {
    const id = freshId(name);
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
      { class: "field", "aria-describedby": `${id}-error`, onchange: () => this.complain("") },
      make("legend", {}, label, isOptional && make("span", { class: "optional" }, ` ${word("optional")}`)),
      hint && make("p", { class: "hint" }, hint),
      this.inputs.map(({ element }) => element),
      this.error,
    );
  }

  get value() {
    return this.inputs.filter(({ input }) => input.checked).map(({ value }) => value);
  }

  fault() {
    return !this.value.length && !this.isOptional ? word("choose") : this.value.length ? this.check(this.value) : "";
  }

  complain(text) {
    this.error.textContent = text;
  }

  focus() {
    (this.inputs.find(({ input }) => input.checked) ?? this.inputs[0]).input.focus();
  }
}

/**
 * A form of fields. `send(values)` does it; a Refusal it throws is shown at its field, or else above the form, and
 * everything typed stays. `others`: elements between the fields and the button. `aliases`: our names of fields that
 * refusals call otherwise.
 */
export class Form {
  constructor({ fields, submit, send, others = [], aliases = {}, kind = null, onRefusal = () => false }) {
    this.fields = fields;
    this.aliases = aliases;
    this.send = send;
    this.onRefusal = onRefusal;
    this.isBusy = false;
    this.submit = make("button", { class: kind }, submit);
    const elements = fields.map((field) => field.element);
    this.element = make("form", { novalidate: true, onsubmit: (event) => this.follow(event) }, elements, others, this.submit);
  }

  get values() {
    return Object.fromEntries(this.fields.map((field) => [field.name, field.value]));
  }

  async follow(event) {
    event.preventDefault();
    if (this.isBusy || !this.isInOrder()) {
      return;
    }
    this.busy(true);
    notice.say(word("sending"));
    try {
      await this.send(this.values);
      notice.forget(word("sending"));
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
      if (refusal.isLoggedOut) {
        return; // the page has turned to its login
      }
      notice.clear();
      if (!this.onRefusal(refusal)) {
        this.object(refusal);
      }
    } finally {
      this.busy(false);
    }
  }

  /** Every fault is told at its field, and the first one is gone to. */
  isInOrder() {
    const faulty = this.fields.filter((field) => {
      const fault = field.fault();
      field.complain(fault);
      return fault;
    });
    faulty[0]?.focus();
    return !faulty.length;
  }

  /** Show a refusal where it can be mended. */
  object(refusal) {
    const name = this.aliases[refusal.field] ?? refusal.field;
    const field = this.fields.find((candidate) => candidate.name === name);
    if (field) {
      field.complain(refusal.message);
      field.focus();
    } else {
      notice.refuse(refusal);
    }
  }

  busy(isBusy) {
    this.isBusy = isBusy;
    // not disabled: that would take the focus away
    this.submit.setAttribute("aria-disabled", isBusy);
    this.element.setAttribute("aria-busy", isBusy);
  }
}
