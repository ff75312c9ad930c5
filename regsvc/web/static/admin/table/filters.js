// What a list shows only: texts that are looked for, choices and days. It follows while one types.

import { button, freshId, make } from "../../shared/dom.js";
import { word } from "../../shared/i18n.js";

const PAUSE = 300; // milliseconds without a key, after which a text is looked for

/**
 * `fields`: `[{name, label, type, options}]`, `label` a key of words. `type`: "search", "text", "date" or "select" (with
 * `options`: `[{value, text}]`; the first is what is usual and stands in no address). `change(values)` is called with
 * all that is set.
 */
export class Filters {
  constructor(fields, query, change) {
    this.change = change;
    this.timer = null;
    this.inputs = new Map(fields.map((field) => [field.name, this.input(field, query[field.name] ?? "")]));
    this.clear = button(word("filters_clear"), () => this.reset(), "plain");
    const lines = fields.map(({ name, label, type }) => {
      const input = this.inputs.get(name);
      return make("div", { class: `field ${type}` }, make("label", { for: input.id }, word(label)), input);
    });
    const agree = (event) => {
      if (event.key === "Enter" && !event.isComposing && event.target.localName === "input") {
        event.preventDefault();
        this.tell(); // at once
      }
    };
    this.element = make("form", { class: "filters", role: "search", onkeydown: agree }, lines, this.clear);
    this.mark();
  }

  input({ name, type, options = [] }, value) {
    const id = freshId(name);
    if (type === "select") {
      const choices = options.map((option) => make("option", { value: option.value }, option.text));
      const select = make("select", { id, onchange: () => this.tell() }, choices);
      select.value = options.some((option) => option.value === value) ? value : options[0].value;
      return select;
    }
    const isDay = type === "date";
    const input = make("input", { id, type, autocomplete: "off", spellcheck: "false", autocapitalize: "none" });
    input.addEventListener(isDay ? "change" : "input", () => (isDay ? this.tell() : this.tellSoon()));
    input.value = value;
    return input;
  }

  /** What is set, as it stands in the address. */
  get values() {
    const given = [...this.inputs].map(([name, input]) => [name, input.value.trim()]);
    return Object.fromEntries(given.filter(([name, value]) => value !== "" && !this.isUsual(name, value)));
  }

  isUsual(name, value) {
    const input = this.inputs.get(name);
    return input.localName === "select" && input.options[0].value === value;
  }

  focus() {
    this.inputs.values().next().value.focus();
  }

  tellSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.tell(), PAUSE);
  }

  tell() {
    clearTimeout(this.timer);
    this.mark();
    this.change(this.values);
  }

  reset() {
    this.inputs.forEach((input) => {
      input.value = input.localName === "select" ? input.options[0].value : "";
    });
    this.tell();
    this.focus();
  }

  mark() {
    this.clear.hidden = Object.keys(this.values).length === 0;
  }
}
