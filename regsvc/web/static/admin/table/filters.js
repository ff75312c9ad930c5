// The filters of a list: texts to search for, choices and dates. They apply while the operator types. Where there is
// little room, those behind the first are folded away, and a chip for each that is set tells so, and unsets it.

import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";

const TYPING_PAUSE = 300; // milliseconds without a key press, after which a text is applied

/**
 * @typedef {object} FilterField
 * @property {string} name
 * @property {string} label the key of its text
 * @property {"search" | "text" | "date" | "select"} type
 * @property {string} [placeholder] the key of its text, which tells what matches
 * @property {Array<{ value: string, text: string }>} [options] of a select; the first is the default and is not part of
 *   the address
 */

/** @typedef {HTMLInputElement | HTMLSelectElement} Input */

export class Filters {
  /**
   * @param {FilterField[]} fields
   * @param {Record<string, string>} query the initial values
   * @param {(values: Record<string, string>) => void} onChange called with the values that are set
   */
  constructor(fields, query, onChange) {
    this.onChange = onChange;
    this.timer = 0;
    /** @type {Map<string, Input>} */
    this.inputs = new Map(fields.map((field) => [field.name, this.makeInput(field, query[field.name] ?? "")]));
    this.fields = fields;
    this.clear = button(t("filters_clear"), () => this.reset(), "plain");
    const lines = fields.map(({ name, label, type }) => {
      const input = this.inputs.get(name);
      return make("div", { class: `field ${type}` }, make("label", { for: input?.id }, t(label)), input);
    });
    const onkeydown = (/** @type {KeyboardEvent & { target: Element }} */ event) => {
      if (event.key === "Enter" && !event.isComposing && event.target.localName === "input") {
        event.preventDefault();
        this.apply(); // at once
      }
    };
    this.fold = button(t("filters_show"), () => this.toggle(this.fold.getAttribute("aria-expanded") !== "true"));
    this.fold.classList.add("fold");
    const [first, ...others] = lines;
    this.fold.hidden = others.length === 0;
    this.chips = make("div", { class: "chips" });
    const parts = [first, this.fold, others, this.chips, this.clear];
    this.element = make("form", { class: "filters", role: "search", onkeydown }, parts);
    this.toggle(false);
    this.showSet();
  }

  /**
   * @param {FilterField} field
   * @param {string} value
   * @returns {Input}
   */
  makeInput({ name, type, placeholder, options = [] }, value) {
    const id = uniqueId(name);
    if (type === "select") {
      const choices = options.map((option) => make("option", { value: option.value }, option.text));
      const select = make("select", { id, onchange: () => this.apply() }, choices);
      select.value = options.some((option) => option.value === value) ? value : options[0].value;
      return select;
    }
    const about = placeholder === undefined ? {} : { placeholder: t(placeholder) };
    const usual = { autocomplete: "off", spellcheck: "false", autocapitalize: "none" };
    const input = make("input", { id, type, ...usual, ...about });
    if (type === "date") {
      input.addEventListener("change", () => this.apply());
    } else {
      input.addEventListener("input", () => this.applySoon());
    }
    input.value = value;
    return input;
  }

  /** The values that are set, as they are in the address. */
  get values() {
    const all = [...this.inputs].map(([name, input]) => [name, input.value.trim()]);
    return Object.fromEntries(all.filter(([name, value]) => value !== "" && !this.isDefault(name, value)));
  }

  /**
   * @param {string} name
   * @param {string} value
   */
  isDefault(name, value) {
    const input = this.inputs.get(name);
    return input instanceof HTMLSelectElement && input.options[0].value === value;
  }

  /** @param {boolean} isOpen whether the filters behind the first are shown where they can be folded */
  toggle(isOpen) {
    this.fold.setAttribute("aria-expanded", String(isOpen));
    this.element.toggleAttribute("data-open", isOpen);
  }

  focus() {
    const [first] = this.inputs.values();
    first.focus();
  }

  applySoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.apply(), TYPING_PAUSE);
  }

  apply() {
    clearTimeout(this.timer);
    this.showSet();
    this.onChange(this.values);
  }

  reset() {
    this.inputs.forEach(unset);
    this.apply();
    this.focus();
  }

  /** Show a chip for each filter behind the first that is set, and what clears them all. */
  showSet() {
    const { values } = this;
    this.clear.hidden = Object.keys(values).length === 0;
    const set = this.fields.slice(1).filter(({ name }) => name in values);
    replaceContent(
      this.chips,
      set.map((field) => this.chip(field)),
    );
  }

  /** @param {FilterField} field */
  chip({ name, label }) {
    const input = /** @type {Input} */ (this.inputs.get(name));
    const value = input instanceof HTMLSelectElement ? input.selectedOptions[0].text : input.value;
    const what = t("filter_is", { label: t(label), value });
    return make(
      "button",
      { type: "button", class: "chip", "aria-label": t("filter_remove", { what }), onclick: () => this.remove(input) },
      make("span", {}, `${what} ×`),
    );
  }

  /** @param {Input} input */
  remove(input) {
    unset(input);
    this.apply();
    this.fold.focus();
  }
}

/** @param {Input} input */
function unset(input) {
  input.value = input instanceof HTMLSelectElement ? input.options[0].value : "";
}
