// A table, which a phone shows as cards. Unchanged rows keep their elements, and with them the focus.

import { make, replaceContent } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { Signal } from "../../shared/signal.js";

/**
 * On phones, "main" comes first, "second" below it and "bare" last, all without their titles; "wide" takes the
 * remaining width.
 *
 * @template Row
 * @typedef {object} Column
 * @property {string} title the key of its text
 * @property {"main" | "second" | "bare" | "wide"} [kind]
 * @property {boolean} [isNumber] a number or a time, which stands at the right
 * @property {(row: Row) => Child} render
 */

/**
 * @template Row
 * @typedef {object} TableOptions
 * @property {string} label the key of the text that names the table
 * @property {Column<Row>[]} columns
 * @property {(row: Row) => string | number} keyOf
 * @property {(row: Row) => unknown} [extraState] what a row shows beside its own data: when it changes, the row is
 *   rendered again
 * @property {((row: Row) => string) | null} [rowLabel] names a row for screen readers; with it rows can be selected
 */

/** @typedef {{ signature: string, element: HTMLElement, checkbox: HTMLInputElement | null }} RenderedRow */

/** @template Row */
export class Table {
  /** @type {Map<string | number, RenderedRow>} by key */
  #rendered = new Map();

  /** @param {TableOptions<Row>} options */
  constructor({ label, columns, keyOf, extraState = () => null, rowLabel = null }) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.extraState = extraState;
    this.rowLabel = rowLabel;
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Signal<Set<string | number>>} */
    this.selectedKeys = new Signal(new Set());
    this.all = make("input", {
      type: "checkbox",
      "aria-label": t("choose_page"),
      onchange: (/** @type {{ target: HTMLInputElement }} */ { target }) => this.selectAll(target.checked),
    });
    // explicit roles: shown as cards, browsers would forget that these are tables
    const titles = columns.map(({ title, isNumber }) =>
      make("th", { role: "columnheader", scope: "col", class: isNumber && "number" }, t(title)),
    );
    this.body = make("tbody", { role: "rowgroup" });
    this.element = make(
      "table",
      { class: "rows", role: "table", "aria-label": t(label) },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, rowLabel && this.selectAllCell(), titles)),
      this.body,
    );
  }

  selectAllCell() {
    const label = make("span", { "aria-hidden": "true" }, t("choose_page"));
    return make(
      "th",
      { role: "columnheader", scope: "col", class: "choice" },
      make("label", { class: "tick" }, this.all, label),
    );
  }

  /** The selected rows. */
  get selected() {
    const keys = this.selectedKeys.value; // read even without rows, so that effects follow it
    return this.rows.filter((row) => keys.has(this.keyOf(row)));
  }

  /** The row with the focus, or null. */
  get current() {
    const row = /** @type {HTMLElement | null} */ (document.activeElement?.closest("tr") ?? null);
    const key = row?.dataset.key;
    return this.rows.find((candidate) => String(this.keyOf(candidate)) === key) ?? null;
  }

  /** The rows that an action is about: the selected ones, or else the one with the focus. */
  get targets() {
    if (this.selectedKeys.value.size > 0) {
      return this.selected;
    }
    const { current } = this;
    return current === null ? [] : [current];
  }

  /** @param {Row[]} rows */
  render(rows) {
    const focused = this.current === null ? null : this.keyOf(this.current);
    this.rows = rows;
    const before = this.#rendered;
    this.#rendered = new Map(rows.map((row) => [this.keyOf(row), this.renderRow(row, before)]));
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    const elements = [...this.#rendered.values()].map(({ element }) => element);
    replaceContent(this.body, elements);
    if (active !== document.activeElement) {
      const row = focused === null ? undefined : this.#rendered.get(focused)?.element;
      const target = active?.isConnected ? active : focusTarget(row);
      target?.focus({ preventScroll: true });
    }
    this.element.hidden = rows.length === 0;
    this.selectedKeys.value = new Set([...this.selectedKeys.value].filter((key) => this.#rendered.has(key)));
    this.updateSelection();
  }

  /** Render the rows whose extra state has changed. */
  refresh() {
    this.render(this.rows);
  }

  /**
   * @param {Row} row
   * @param {Map<string | number, RenderedRow>} before
   * @returns {RenderedRow}
   */
  renderRow(row, before) {
    const key = this.keyOf(row);
    const signature = JSON.stringify([row, this.extraState(row)]);
    const old = before.get(key);
    if (old?.signature === signature) {
      return old;
    }
    const checkbox = this.rowLabel === null ? null : this.rowCheckbox(key, this.rowLabel(row));
    const cells = this.columns.map(({ title, render, kind = null, isNumber = false }) => {
      const shownTitle = kind === null || kind === "wide" ? t(title) : null;
      const cell = make("td", { role: "cell", class: kind, "data-title": shownTitle }, render(row));
      cell.classList.toggle("number", isNumber);
      cell.classList.toggle("none", !cell.textContent);
      return cell;
    });
    const choice =
      checkbox && make("td", { role: "cell", class: "choice" }, make("label", { class: "tick" }, checkbox));
    const element = make("tr", { role: "row", tabindex: "-1", "data-key": key }, choice, cells);
    return { signature, checkbox, element };
  }

  /**
   * @param {string | number} key
   * @param {string} name
   */
  rowCheckbox(key, name) {
    return make("input", {
      type: "checkbox",
      "aria-label": t("choose_person", { name }),
      onchange: (/** @type {{ target: HTMLInputElement }} */ { target }) => this.select(key, target.checked),
    });
  }

  /**
   * @param {string | number} key
   * @param {boolean} isSelected
   */
  select(key, isSelected) {
    const keys = new Set(this.selectedKeys.value);
    if (isSelected) {
      keys.add(key);
    } else {
      keys.delete(key);
    }
    this.selectedKeys.value = keys;
    this.updateSelection();
  }

  /** @param {boolean} areSelected */
  selectAll(areSelected) {
    this.selectedKeys.value = new Set(areSelected ? this.#rendered.keys() : []);
    this.updateSelection();
  }

  updateSelection() {
    const keys = this.selectedKeys.value;
    for (const [key, { checkbox, element }] of this.#rendered) {
      if (checkbox !== null) {
        checkbox.checked = keys.has(key);
        element.setAttribute("aria-selected", String(keys.has(key)));
      }
    }
    this.all.checked = this.rows.length > 0 && keys.size === this.rows.length;
    this.all.indeterminate = keys.size > 0 && !this.all.checked;
  }

  /** @param {1 | -1} by */
  moveFocus(by) {
    const start = by > 0 ? -1 : this.rows.length;
    const index = this.current === null ? start : this.rows.indexOf(this.current);
    const row = this.rows[Math.min(this.rows.length - 1, Math.max(0, index + by))];
    const element = row && this.#rendered.get(this.keyOf(row))?.element;
    focusTarget(element)?.focus();
    element?.scrollIntoView({ block: "nearest" });
  }

  toggleCurrent() {
    const key = this.current === null ? null : this.keyOf(this.current);
    if (key !== null) {
      this.select(key, !this.selectedKeys.value.has(key));
    }
  }

  /** @returns {import("../keyboard.js").Bindings} */
  get keyBindings() {
    const steps = {
      "j ArrowDown": { label: "key_row_next", repeats: true, action: () => this.moveFocus(1) },
      "k ArrowUp": { label: "key_row_before", repeats: true, action: () => this.moveFocus(-1) },
    };
    return this.rowLabel ? { ...steps, x: { label: "key_choose", action: () => this.toggleCurrent() } } : steps;
  }
}

/**
 * Return what takes the focus in a row: the link in its main cell, or else the row.
 *
 * @param {HTMLElement | undefined} row
 * @returns {HTMLElement | undefined}
 */
function focusTarget(row) {
  return /** @type {HTMLElement | null} */ (row?.querySelector(".main a") ?? null) ?? row;
}
