// The filters of a list: texts to search for, choices and dates. They apply while the operator types.

import { button, make, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";

const TYPING_PAUSE = 300; // milliseconds without a key press, after which a text is applied

/**
 * @typedef {object} FilterField
 * @property {string} name
 * @property {string} label the key of its text
 * @property {"search" | "text" | "date" | "select"} type
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
    this.element = make("form", { class: "filters", role: "search", onkeydown }, first, this.fold, others, this.clear);
    this.toggle(fields.slice(1).some(({ name }) => name in this.values));
    this.updateClear();
  }

  /**
   * @param {FilterField} field
   * @param {string} value
   * @returns {Input}
   */
  makeInput({ name, type, options = [] }, value) {
    const id = uniqueId(name);
    if (type === "select") {
      const choices = options.map((option) => make("option", { value: option.value }, option.text));
      const select = make("select", { id, onchange: () => this.apply() }, choices);
      select.value = options.some((option) => option.value === value) ? value : options[0].value;
      return select;
    }
    const input = make("input", { id, type, autocomplete: "off", spellcheck: "false", autocapitalize: "none" });
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

  /** @param {boolean} isOpen whether a phone shows the filters behind the first */
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
    this.updateClear();
    this.onChange(this.values);
  }

  reset() {
    for (const input of this.inputs.values()) {
      input.value = input instanceof HTMLSelectElement ? input.options[0].value : "";
    }
    this.apply();
    this.focus();
  }

  updateClear() {
    this.clear.hidden = Object.keys(this.values).length === 0;
  }
}
