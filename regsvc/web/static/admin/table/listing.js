// A list that is loaded page by page: its filters, the number of rows, the rows, and links to other pages.

import { make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { describeNone, formatNumber } from "../phrases.js";
import { Refresh } from "../refresh.js";
import { Filters } from "./filters.js";
import { PageLinks, pageNumber } from "./pagination.js";

/**
 * @template Row
 * @typedef {object} ListingOptions
 * @property {import("./filters.js").FilterField[]} fields
 * @property {(values: Record<string, any>, place: Query) => Promise<RowsPage<Row>>} load returns a page; `values` are
 *   those of the filters, `place` is `{page}` or `{after}`
 * @property {import("./table.js").Table<Row>} table
 * @property {string} countText the key of the text with the number of rows ("{count}")
 * @property {string} emptyText
 * @property {Child} [actions] above the table
 */

/** @template Row */
export class Listing {
  /**
   * @param {import("../view-context.js").ViewContext} context
   * @param {Record<string, string>} query
   * @param {ListingOptions<Row>} options
   */
  constructor(context, query, { fields, load, table, countText, emptyText, actions = [] }) {
    this.context = context;
    this.loadPage = load;
    this.table = table;
    this.countText = countText;
    this.emptyText = emptyText;
    this.requests = 0;
    this.refresh = new Refresh(context, () => this.load());
    this.filters = new Filters(fields, query, (values) => this.applyFilters(values));
    /** @type {Query} */
    this.query = { ...this.filters.values, page: query.page ?? null, after: query.after ?? null };
    this.pages = new PageLinks(context);
    this.count = make("p", { class: "quiet-text counted", role: "status" });
    this.elements = [this.filters.element, this.count, actions, table.element, this.pages.element];
    context.addKeys({
      "/": { label: "key_search", action: () => this.filters.focus() },
      ...table.keyBindings,
      ...this.pages.keyBindings,
    });
  }

  /** Return the elements once the first page is loaded. Throws a Refusal. */
  async render() {
    await this.load();
    return this.elements;
  }

  async load() {
    this.requests += 1;
    const request = this.requests;
    const { page, after, ...values } = this.query;
    const place = after ? { after } : { page: pageNumber({ page }) };
    const isShown = () => request === this.requests && !this.context.isOver; // else a later request, or another view
    const [whole, found] = await Promise.all([this.#showWhole(values, place, isShown), this.loadPage(values, place)]);
    if (!isShown()) {
      return;
    }
    const names = new Set(whole.map(this.table.keyOf));
    this.table.render([...whole, ...found.rows.filter((row) => !names.has(this.table.keyOf(row)))]);
    this.pages.render(this.query, found);
    const { totalCount } = found.pagination;
    const count = totalCount === null ? t("very_many") : formatNumber(totalCount);
    const isEmpty = found.rows.length === 0 && !totalCount;
    this.count.textContent = isEmpty ? describeNone(values.search, this.emptyText) : t(this.countText, { count });
  }

  /**
   * Show the rows that are searched for by their whole name, which takes no time, and return them.
   *
   * @param {Query} values
   * @param {Query} place
   * @param {() => boolean} isShown
   */
  async #showWhole(values, place, isShown) {
    if (!values.search || place.page !== 1) {
      return [];
    }
    const { rows } = await this.loadPage({ ...values, match: "whole" }, place);
    if (rows.length && isShown()) {
      this.table.render(rows);
    }
    return rows;
  }

  /** @param {Record<string, string>} values */
  applyFilters(values) {
    this.query = { ...values, page: null, after: null };
    this.context.updateHash(this.query);
    return this.refresh.now();
  }
}
