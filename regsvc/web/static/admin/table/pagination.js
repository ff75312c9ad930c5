// Links to the other pages of a list: they are links, so that the browser's Back works and a page can be shared.

import { link, make, replaceContent } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { formatNumber } from "../phrases.js";

export class PageLinks {
  /** @type {HTMLAnchorElement | null} */
  #previous = null;
  /** @type {HTMLAnchorElement | null} */
  #next = null;

  /** @param {import("../view-context.js").ViewContext} context */
  constructor(context) {
    this.context = context;
    this.element = make("nav", { class: "pages", "aria-label": t("pages_of_list") });
  }

  /**
   * @param {Query} query of the current page
   * @param {Omit<RowsPage<unknown>, "rows">} page
   */
  render(query, { pagination, nextCursor = null }) {
    const number = pageNumber(query);
    const last = pagination.totalPages;
    /** @type {(page: number, key: string, rel?: string | null, after?: string | null) => HTMLAnchorElement} */
    const linkTo = (page, key, rel = null, after = null) => {
      const href = this.context.hashFor(this.context.view.id, { ...query, page: page === 1 ? null : page, after });
      return link(href, t(key), { class: "button quiet", rel });
    };
    this.#previous = number > 1 ? linkTo(number - 1, "page_before", "prev") : null;
    this.#next = pagination.hasNext ? linkTo(number + 1, "page_next", "next", nextCursor) : null;
    const page = formatNumber(number);
    const position = last === null ? t("page_at", { page }) : t("page_of", { page, pages: formatNumber(last) });
    this.element.hidden = this.#previous === null && this.#next === null;
    replaceContent(
      this.element,
      number > 2 && linkTo(1, "page_first"),
      this.#previous,
      make("span", { class: "where" }, position),
      this.#next,
      last !== null && last > number + 1 && linkTo(last, "page_last"),
    );
  }

  /** @returns {import("../keyboard.js").Bindings} */
  get keyBindings() {
    return {
      "n ArrowRight": { label: "key_page_next", action: () => this.#next?.click() },
      "p ArrowLeft": { label: "key_page_before", action: () => this.#previous?.click() },
    };
  }
}

/**
 * Return the page of an address; pages reached by a cursor have their number there, too.
 *
 * @param {Query} query
 */
export function pageNumber({ page }) {
  return Math.max(1, Number.parseInt(String(page), 10) || 1);
}
