// Rows and columns, which a phone shows as cards. Rows that did not change stay where they are, with the focus in them.

import { fillWith, make } from "../../shared/dom.js";
import { word } from "../../shared/i18n.js";

/**
 * `label`: the key of what it lists. `columns`: `[{title, of}]`, `title` a key of words, `of(row)` text or elements;
 * `kind`: "main" for the one that leads, with the link of the row; on a phone "second" comes below it and "bare" last,
 * both without their titles; "wide" gets the room that is left. `keyOf(row)`: what tells a row from the others. `marks(row)`:
 * what a row shows beside what is in it. `nameOf(row)`: with it rows can be chosen; `chosen` is what it is told in words.
 */
export class Table {
  constructor({ label, columns, keyOf, marks = () => "", nameOf = null }) {
    Object.assign(this, { columns, keyOf, marks, nameOf });
    this.rows = [];
    this.shown = new Map(); // by key: {sign, element, box}
    this.keys = new Set(); // of the chosen
    this.onChoice = () => {};
    this.all = make("input", { type: "checkbox", "aria-label": word("choose_page"), onchange: ({ target }) => this.chooseAll(target.checked) });
    // roles said aloud: as cards, browsers would forget that these are tables
    const titles = columns.map(({ title }) => make("th", { role: "columnheader", scope: "col" }, word(title)));
    const box = nameOf && make("th", { role: "columnheader", scope: "col", class: "choice" }, make("label", { class: "tick" }, this.all, make("span", { "aria-hidden": "true" }, word("choose_page"))));
    this.body = make("tbody", { role: "rowgroup" });
    this.element = make(
      "table",
      { class: "rows", role: "table", "aria-label": word(label) },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, box, titles)),
      this.body,
    );
  }

  /** The rows that are chosen. */
  get chosen() {
    return this.rows.filter((row) => this.keys.has(this.keyOf(row)));
  }

  /** The row that has the focus, or null. */
  get current() {
    const key = document.activeElement?.closest?.("tr")?.dataset.key;
    return this.rows.find((row) => String(this.keyOf(row)) === key) ?? null;
  }

  /** What a decision is about: the chosen, or else the row with the focus. */
  get meant() {
    return this.keys.size > 0 ? this.chosen : [this.current].filter(Boolean);
  }

  draw(rows) {
    const focused = this.current === null ? null : this.keyOf(this.current);
    this.rows = rows;
    const before = this.shown;
    this.shown = new Map(rows.map((row) => [this.keyOf(row), this.shownRow(row, before)]));
    const active = document.activeElement;
    fillWith(this.body, [...this.shown.values()].map(({ element }) => element));
    if (active !== document.activeElement) {
      (active.isConnected ? active : this.placeIn(this.shown.get(focused)?.element))?.focus({ preventScroll: true });
    }
    this.element.hidden = rows.length === 0;
    this.keys = new Set([...this.keys].filter((key) => this.shown.has(key)));
    this.mark();
  }

  /** Some rows may show something else now: a decision that waits. */
  redraw() {
    this.draw(this.rows);
  }

  shownRow(row, before) {
    const key = this.keyOf(row);
    const sign = JSON.stringify([row, this.marks(row)]);
    const old = before.get(key);
    if (old?.sign === sign) {
      return old;
    }
    const box = this.nameOf && make("input", { type: "checkbox", "aria-label": word("choose_person", { name: this.nameOf(row) }), onchange: ({ target }) => this.choose(key, target.checked) });
    const cells = this.columns.map(({ title, of, kind = null }) =>
      make("td", { role: "cell", class: kind, "data-title": kind === null || kind === "wide" ? word(title) : null }, of(row)),
    );
    cells.filter((cell) => !cell.textContent).forEach((cell) => cell.classList.add("empty"));
    const choice = box && make("td", { role: "cell", class: "choice" }, make("label", { class: "tick" }, box));
    return { sign, box, element: make("tr", { role: "row", tabindex: "-1", "data-key": key }, choice, cells) };
  }

  choose(key, isChosen) {
    if (isChosen) {
      this.keys.add(key);
    } else {
      this.keys.delete(key);
    }
    this.mark();
  }

  chooseAll(areChosen) {
    this.keys = new Set(areChosen ? this.shown.keys() : []);
    this.mark();
  }

  mark() {
    this.shown.forEach(({ box, element }, key) => {
      if (box) {
        box.checked = this.keys.has(key);
        element.setAttribute("aria-selected", this.keys.has(key));
      }
    });
    this.all.checked = this.rows.length > 0 && this.keys.size === this.rows.length;
    this.all.indeterminate = this.keys.size > 0 && !this.all.checked;
    this.onChoice();
  }

  /** To the next row, or the one before. */
  step(by) {
    const place = this.current === null ? (by > 0 ? -1 : this.rows.length) : this.rows.indexOf(this.current);
    const row = this.rows[Math.min(this.rows.length - 1, Math.max(0, place + by))];
    const element = row && this.shown.get(this.keyOf(row)).element;
    this.placeIn(element)?.focus();
    element?.scrollIntoView({ block: "nearest" });
  }

  /** Where the focus goes in a row. */
  placeIn(element) {
    return element?.querySelector(".main a") ?? element;
  }

  toggleCurrent() {
    const key = this.current === null ? null : this.keyOf(this.current);
    if (key !== null) {
      this.choose(key, !this.keys.has(key));
    }
  }

  get keysOfRows() {
    const steps = {
      "j ArrowDown": { word: "key_row_next", repeats: true, action: () => this.step(1) },
      "k ArrowUp": { word: "key_row_before", repeats: true, action: () => this.step(-1) },
    };
    return this.nameOf ? { ...steps, x: { word: "key_choose", action: () => this.toggleCurrent() } } : steps;
  }
}
