// A list that is asked for page by page: what is shown only, how many there are, the rows, and the way to other pages.

import { Refusal } from "../../shared/api.js";
import { fillWith, make } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { word } from "../../shared/i18n.js";
import { Filters } from "./filters.js";
import { numeral } from "../badges.js";
import { numberOf, Pages } from "./pagination.js";

const SOON = 700; // milliseconds; many events at once are one question
const AGAIN = 5; // seconds, after which is tried again what could not be asked for

/**
 * `fields`: of the `Filters`. `ask(values, place)` comes back with `{rows, pagination, nextCursor}`; `values` is what is
 * set, `place` is `{page}` or `{after}`. `counted`, `none`: keys of words for how many there are ("{count}").
 */
export class Listing {
  constructor(office, query, { fields, ask, table, counted, none, beside = [] }) {
    Object.assign(this, { office, ask, table, counted, none });
    this.questions = 0;
    this.told = ""; // why it could not be asked for
    this.timer = null;
    this.filters = new Filters(fields, query, (values) => this.change(values));
    this.query = { ...this.filters.values, page: query.page ?? null, after: query.after ?? null };
    this.pages = new Pages(office, office.view.id);
    this.count = make("p", { class: "quiet-text counted", role: "status" });
    this.elements = [this.filters.element, this.count, beside, table.element, this.pages.element];
    office.keys({ "/": { word: "key_search", action: () => this.filters.focus() }, ...table.keysOfRows, ...this.pages.keys });
    office.onLeave(() => clearTimeout(this.timer));
  }

  /** The elements, once there is something to show. Throws a Refusal. */
  async draw() {
    await this.load();
    return this.elements;
  }

  async load() {
    this.questions += 1;
    const question = this.questions;
    const { page, after, ...values } = this.query;
    const found = await this.ask(values, after ? { after } : { page: numberOf({ page }) });
    if (question !== this.questions || this.office.isOver) {
      return; // something else is shown meanwhile
    }
    this.table.draw(found.rows);
    this.pages.draw(this.query, found);
    const { totalCount } = found.pagination;
    const count = totalCount === null ? word("very_many") : numeral(totalCount);
    this.count.textContent = found.rows.length || totalCount ? word(this.counted, { count }) : word(this.none);
  }

  /** Other filters, from the first page on. */
  change(values) {
    this.query = { ...values, page: null, after: null };
    this.office.note(this.query);
    return this.refresh();
  }

  /** Ask anew; what cannot be asked for is told, what is shown stays, and it is tried again. */
  async refresh() {
    clearTimeout(this.timer);
    this.timer = null;
    try {
      await this.load();
      notice.forget(this.told);
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
      if (!refusal.isLoggedOut && !this.office.isOver) {
        this.told = refusal.message;
        notice.say(this.told, "bad");
        this.timer = setTimeout(() => this.refresh(), (refusal.retryAfter ?? AGAIN) * 1000);
      }
    }
  }

  refreshSoon() {
    this.timer ??= setTimeout(() => this.refresh(), SOON);
  }
}

/** Above a table: how many of its rows are chosen and what can be done with them. `actions`: buttons. */
export function choiceBar(table, actions) {
  const count = make("span", { class: "counted" });
  const clear = make("button", { type: "button", class: "plain", onclick: () => table.chooseAll(false) }, word("choose_none"));
  const acts = make("div", { class: "acts" });
  const bar = make("div", { class: "choice-bar", role: "group", "aria-label": word("chosen_acts"), hidden: true }, count, acts, clear);
  const said = make("p", { class: "unseen", role: "status" });
  fillWith(acts, actions);
  table.onChoice = () => {
    const number = table.keys.size;
    bar.hidden = number === 0;
    count.textContent = word("chosen", { count: numeral(number) });
    said.textContent = number ? word("chosen", { count: numeral(number) }) : "";
  };
  return [bar, said];
}
