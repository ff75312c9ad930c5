// The way to the other pages of a list. They are links, so that the browser's way back works and a page can be shared.

import { fillWith, link, make } from "../../shared/dom.js";
import { numeral } from "../badges.js";
import { word } from "../../shared/i18n.js";

export class Pages {
  /** `viewId`: the view whose pages these are. */
  constructor(office, viewId) {
    this.office = office;
    this.viewId = viewId;
    this.element = make("nav", { class: "pages", "aria-label": word("pages_of_list") });
  }

  /** `query`: of the page that is shown; `found`: `{pagination, nextCursor}` as the API told them. */
  draw(query, { pagination, nextCursor = null }) {
    const number = numberOf(query);
    const last = pagination.totalPages;
    const goTo = (page, after = null) => this.office.address(this.viewId, { ...query, page: page === 1 ? null : page, after });
    this.before = number > 1 ? link(goTo(number - 1), word("page_before"), { class: "button quiet", rel: "prev" }) : null;
    this.next = pagination.hasNext ? link(goTo(number + 1, nextCursor), word("page_next"), { class: "button quiet", rel: "next" }) : null;
    const where = last === null ? word("page_at", { page: numeral(number) }) : word("page_of", { page: numeral(number), pages: numeral(last) });
    this.element.hidden = this.before === null && this.next === null;
    fillWith(
      this.element,
      number > 2 && link(goTo(1), word("page_first"), { class: "button quiet" }),
      this.before,
      make("span", { class: "where" }, where),
      this.next,
      last !== null && last > number + 1 && link(goTo(last), word("page_last"), { class: "button quiet" }),
    );
  }

  get keys() {
    return {
      "n ArrowRight": { word: "key_page_next", action: () => this.next?.click() },
      "p ArrowLeft": { word: "key_page_before", action: () => this.before?.click() },
    };
  }
}

/** Which page the address means; one reached by a cursor has its number there, too. */
export function numberOf({ page }) {
  return Math.max(1, Number.parseInt(page, 10) || 1);
}
