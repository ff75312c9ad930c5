// The layout of the review queue: search and list on one side, the open applicant on the other. It decides nothing.

import { button, icon, make } from "../../../shared/dom.js";
import { languageName, languages, t } from "../../../shared/i18n.js";
import { Signal } from "../../../shared/signal.js";
import { describeNone, formatNumber } from "../../phrases.js";
import { Filters } from "../../table/filters.js";
import { bulkBar } from "./bulk-bar.js";

const WAITING_FOR = ["", "review", "applicant"];

/** @typedef {import("./applicant-summary.js").ActionName} ActionName */

/**
 * @typedef {object} LayoutActions
 * @property {(name: ActionName) => unknown} act decides about the selected applicants, or else about the open one
 * @property {(positions: 1 | -1) => unknown} move
 * @property {() => unknown} selectAll
 * @property {(filters: Record<string, string>) => unknown} search
 * @property {() => unknown} finishSearch called on Enter: from now on keys are about what was found
 * @property {() => unknown} loadMore
 */

export class QueueLayout {
  /**
   * @param {import("../../view-context.js").ViewContext} context
   * @param {import("./review-queue.js").ReviewQueue} queue
   * @param {import("./applicant-list.js").ApplicantList} list
   * @param {import("./applicant-card.js").ApplicantCard} card
   * @param {LayoutActions} actions
   */
  constructor(context, queue, list, card, actions) {
    this.queue = queue;
    this.list = list;
    this.card = card;
    this.actions = actions;
    /** @type {Signal<"card" | "list">} which of the two a phone shows */
    this.pane = new Signal("card");
    this.count = make("p", { class: "counted quiet-text", role: "status" });
    this.empty = make("p", { class: "empty" }, icon("i-circle-check"), t("queue_empty"));
    this.notFound = make("p", { class: "notice", role: "status" });
    this.toList = button("", () => this.showList(), "quiet");
    this.filters = this.makeFilters();
    this.end = make("div", { class: "list-end" });
    const skip = make("button", { type: "button", class: "skip", onclick: () => this.focusCard() }, t("skip_list"));
    const pager = make("div", { class: "card-pager" }, this.pagerButton(-1), this.toList, this.pagerButton(1));
    const bulk = bulkBar(context, queue, actions);
    const listParts = [skip, this.filters.element, this.count, bulk, list.element, this.end];
    this.split = make(
      "div",
      { class: "split" },
      make("div", { class: "list-pane" }, listParts),
      make("div", { class: "card-pane" }, pager, card.element),
    );
    /** The place of the queue in figures, which come later. */
    this.overview = make("ul", { class: "overview", "aria-label": t("overview") });
    this.element = make("div", { class: "queue" }, this.overview, this.empty, this.split);
    this.watchEnd(context);
    card.element.addEventListener("keydown", (event) => this.leaveCard(event));
  }

  makeFilters() {
    /** @type {Array<import("../../table/filters.js").FilterField>} */
    const fields = [
      { name: "search", label: "search_queue", type: "search" },
      { name: "sort", label: "queue_sort", type: "select", options: optionsOf("sort", ["", "newest", "score"]) },
      { name: "show", label: "queue_show", type: "select", options: optionsOf("show", ["", "hasSignal", "belowPass"]) },
      { name: "waitingFor", label: "queue_waits", type: "select", options: optionsOf("waits", WAITING_FOR) },
      { name: "platform", label: "platform", type: "select", options: optionsOf("platform", ["", "java", "bedrock"]) },
      { name: "userLanguage", label: "language", type: "select", options: languageOptions() },
    ];
    const filters = new Filters(fields, this.queue.applicants.filters, (values) => this.actions.search(values));
    filters.element.addEventListener("keydown", ({ key, isComposing }) => {
      if (key === "Enter" && !isComposing) {
        this.actions.finishSearch();
      }
    });
    return filters;
  }

  /** @param {1 | -1} positions */
  pagerButton(positions) {
    const label = t(positions < 0 ? "key_previous" : "key_next");
    const onclick = () => this.actions.move(positions);
    return make("button", { type: "button", class: "quiet", "aria-label": label, onclick }, positions < 0 ? "‹" : "›");
  }

  /**
   * Load the next page when the end of the list comes into view; it may lie below the window's end.
   *
   * @param {import("../../view-context.js").ViewContext} context
   */
  watchEnd(context) {
    const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && this.actions.loadMore(), {
      rootMargin: "400px",
    });
    observer.observe(this.end);
    context.onLeave(() => observer.disconnect());
  }

  /**
   * Draw the queue now and whenever it changes.
   *
   * @param {import("../../view-context.js").ViewContext} context
   */
  start(context) {
    context.effect(() => this.render());
    context.effect(() => this.card.render(this.queue.current));
    context.effect(() => {
      this.split.dataset.shows = this.pane.value;
    });
  }

  render() {
    const { shown, left, position, current, selected, applicants } = this.queue;
    const isSearch = applicants.isFiltered;
    const count = formatNumber(left);
    const found = left ? t("queue_found", { count }) : describeNone(applicants.filters.search, "users_none");
    this.count.textContent = isSearch ? found : "";
    this.empty.hidden = left > 0 || isSearch;
    this.split.hidden = shown.length === 0 && !isSearch;
    this.toList.textContent = t("queue_place", { place: position, count: left });
    this.list.render(shown, current, selected);
  }

  /** @param {HTMLElement} element to stand above the card */
  showAbove(element) {
    this.card.element.before(element);
  }

  /** @param {string} name which nobody in the queue has */
  showNotFound(name) {
    this.element.prepend(this.notFound);
    this.notFound.textContent = t("not_waiting", { name });
  }

  /**
   * Move the focus to the applicant who was opened. A phone goes on showing the list or the card, whichever it shows: a
   * second tap hits nobody's card.
   *
   * @param {ListedUser} applicant
   */
  focusOn(applicant) {
    this.notFound.remove();
    if (!this.list.focus(applicant)) {
      this.card.focus();
    }
  }

  /** Move the focus to the heading of the open applicant: their answers and the buttons follow. */
  focusCard() {
    this.showCard();
    this.card.focus();
  }

  /** @param {KeyboardEvent} event on the card, where Escape leads back to the list */
  leaveCard(event) {
    if (event.key === "Escape" && !event.defaultPrevented && this.queue.selected.size === 0) {
      event.preventDefault();
      this.showList();
    }
  }

  showCard() {
    this.pane.value = "card";
  }

  showList() {
    this.pane.value = "list";
    this.list.focus(this.queue.current);
  }

  focusSearch() {
    this.pane.value = "list"; // on a phone
    this.filters.focus();
  }
}

/**
 * @param {string} name of the filter
 * @param {string[]} values
 */
function optionsOf(name, values) {
  return values.map((value) => ({ value, text: t(`queue_${name}_${value || "all"}`) }));
}

function languageOptions() {
  const known = languages.map((tag) => ({ value: tag, text: languageName(tag) }));
  return [{ value: "", text: t("queue_platform_all") }, ...known];
}
