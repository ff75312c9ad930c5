// The review queue: applicants, oldest first. One key approves, one rejects, and the next applicant opens.

import { asRefusal } from "../../shared/api.js";
import { button, make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { Signal } from "../../shared/signal.js";
import { ANSWERS_CHANGED, USER_EVENTS } from "../decisions/transitions.js";
import { formatNumber, statusName } from "../phrases.js";
import { Refresh } from "../refresh.js";
import { Filters } from "../table/filters.js";
import { ApplicantCard } from "./queue/applicant-card.js";
import { ApplicantList } from "./queue/applicant-list.js";
import { Applicants } from "./queue/applicants.js";
import { bulkBar } from "./queue/bulk-bar.js";
import { ReviewQueue } from "./queue/review-queue.js";

const MIN_AHEAD = 30; // applicants behind the current one; with fewer the next page is loaded
const ADDRESS_DELAY = 300; // milliseconds
const ARRIVAL_DELAY = 300; // milliseconds; registrations that come together cause one request
const MINUTE = 60_000; // milliseconds

/** @typedef {import("./queue/applicant.js").ActionName} ActionName */

/** @type {View} */
export const queueView = {
  id: "queue",
  title: "view_queue",

  async render(context, { search = "", name = "" }) {
    const page = new QueuePage(context, search);
    const { selected = [], loaded = 0 } = history.state ?? {};
    await page.load();
    await page.openNamed(name);
    await page.queue.restoreSelection(selected, loaded);
    page.start();
    return page.element;
  },
};

class QueuePage {
  /**
   * @param {import("../view-context.js").ViewContext} context
   * @param {string} search
   */
  constructor(context, search) {
    this.context = context;
    this.applicants = new Applicants(context.api);
    this.applicants.search = search;
    this.queue = new ReviewQueue(this.applicants, (username) => context.pendingFor(username) !== null);
    /** @type {Signal<"card" | "list">} which of the two a phone shows */
    this.pane = new Signal("card");
    this.refresh = new Refresh(context, () => this.load());
    /** @type {number | null} */
    this.addressTimer = null;
    /** @type {Set<string>} names of users who have registered and are not in the list yet */
    this.arrived = new Set();
    this.list = new ApplicantList({
      open: (applicant) => this.open(applicant),
      select: (applicant, isSelected) => this.queue.select(applicant, isSelected),
    });
    this.card = new ApplicantCard(context, this.applicants, {
      act: (name, applicant) => this.act(name, [applicant]),
      onShown: (applicant) => this.prefetchNext(applicant),
      onGone: ({ username }) => this.remove(username, t("gone_meanwhile", { name: username })),
    });
    this.count = make("p", { class: "quiet-text", "aria-live": "polite" });
    this.empty = make("p", { class: "all-done" }, t("queue_empty"));
    this.toList = button("", () => this.showList(), "quiet");
    const pager = make("div", { class: "card-pager" }, this.pagerButton(-1), this.toList, this.pagerButton(1));
    const bulk = bulkBar(context, this.queue, { act: (name) => this.act(name), selectAll: () => this.selectAll() });
    /** @type {Array<import("../table/filters.js").FilterField>} */
    const fields = [{ name: "search", label: "search_users", type: "search" }];
    this.filters = new Filters(fields, { search }, (values) => this.search(values.search ?? ""));
    this.filters.element.addEventListener("keydown", (event) => this.leaveSearch(event));
    this.searching = Promise.resolve();
    this.notFound = make("p", { class: "notice", role: "status" });
    this.noMatches = make("p", { class: "quiet-text", role: "status" });
    const listPane = make(
      "div",
      { class: "list-pane" },
      this.filters.element,
      this.noMatches,
      bulk,
      this.list.element,
      this.makeListEnd(),
    );
    const cardPane = make("div", { class: "card-pane" }, pager, this.card.element);
    this.split = make("div", { class: "split" }, listPane, cardPane);
    this.element = make("div", { class: "queue" }, this.count, this.empty, this.split);
  }

  /** @param {1 | -1} positions */
  pagerButton(positions) {
    const label = t(positions < 0 ? "key_previous" : "key_next");
    const onclick = () => this.move(positions);
    return make("button", { type: "button", class: "quiet", "aria-label": label, onclick }, positions < 0 ? "‹" : "›");
  }

  /** Make the element that loads the next page when it comes into view; it may lie below the window's end. */
  makeListEnd() {
    const end = make("div", { class: "list-end" });
    const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && this.loadMore(), {
      rootMargin: "400px",
    });
    observer.observe(end);
    this.context.onLeave(() => observer.disconnect());
    return end;
  }

  /** Draw the queue, and follow events, pending decisions and keys from now on. */
  start() {
    const { context, queue } = this;
    context.effect(() => this.renderList());
    context.effect(() => this.card.render(queue.current));
    context.effect(() => {
      void queue.current;
      void queue.selected;
      this.updateAddressSoon();
    });
    context.effect(() => {
      this.split.dataset.shows = this.pane.value;
    });
    context.onEvent(USER_EVENTS, (data, name) => this.handleEvent(data, name));
    context.onEvent(["missed"], () => this.refresh.now());
    context.onDecision((change, entry, results) => this.handleDecision(change, entry, results));
    context.addKeys(this.keyBindings);
    const clock = setInterval(() => this.list.updateTimes(), MINUTE);
    context.onLeave(() => {
      clearInterval(clock);
      clearTimeout(this.addressTimer ?? undefined);
    });
  }

  /** @returns {import("../keyboard.js").Bindings} */
  get keyBindings() {
    const { context, queue } = this;
    return {
      a: { label: "key_approve", action: () => this.act("approve") },
      r: { label: "key_reject", action: () => this.act("reject") },
      A: { label: "key_approve_words", action: () => this.act("approve_words") },
      "j ArrowDown": { label: "key_next", action: () => this.move(1), repeats: true },
      "k ArrowUp": { label: "key_previous", action: () => this.move(-1), repeats: true },
      x: {
        label: "key_choose",
        action: () => queue.current && queue.select(queue.current, !queue.selected.has(queue.current)),
      },
      X: { label: "key_choose_all", action: () => this.selectAll() },
      "/": { label: "key_search", action: () => this.focusSearch() },
      Escape: { label: "key_choose_none", action: () => queue.selectNone() },
      o: {
        label: "key_open",
        action: () => {
          this.updateAddress(); // going back leads here
          return queue.current && context.go("user", { name: queue.current.username });
        },
      },
    };
  }

  // --- Loading ---

  /** Throws a Refusal. */
  async load() {
    await this.queue.load();
    await this.loadAhead();
  }

  /** Load the next page when few applicants are left behind the current one. */
  async loadAhead() {
    if (this.queue.shown.length - this.queue.position < MIN_AHEAD) {
      await this.loadMore();
    }
  }

  async loadMore() {
    try {
      if (await this.applicants.loadMore()) {
        this.queue.openFirst();
      }
    } catch (error) {
      notice.showRefusal(asRefusal(error));
    }
  }

  /** @param {string} text */
  async search(text) {
    if (this.context.isOver) {
      return; // typed just before the view was left
    }
    this.applicants.search = text;
    this.updateAddress();
    this.searching = this.refresh.now();
    await this.searching;
  }

  /** @param {KeyboardEvent} event after which, if it is Enter, the keys decide about what was found */
  async leaveSearch({ key, isComposing }) {
    if (key === "Enter" && !isComposing) {
      await this.searching;
      this.list.focus(this.queue.current);
    }
  }

  focusSearch() {
    this.pane.value = "list"; // on a phone
    this.filters.focus();
  }

  async selectAll() {
    try {
      await this.queue.selectAll();
    } catch (error) {
      notice.showRefusal(asRefusal(error));
    }
  }

  /**
   * Open the applicant whom the address names. Throws a Refusal.
   *
   * @param {string} name "" for none
   */
  async openNamed(name) {
    if (name && !(await this.queue.openByName(name))) {
      this.element.prepend(this.notFound);
      this.notFound.textContent = t("not_waiting", { name });
    }
  }

  // --- The address ---

  /** Put who is open into the address, and who is selected into its state, soon: browsers limit such changes. */
  updateAddressSoon() {
    this.addressTimer ??= setTimeout(() => this.updateAddress(), ADDRESS_DELAY);
  }

  updateAddress() {
    clearTimeout(this.addressTimer ?? undefined);
    this.addressTimer = null;
    const { search, list } = this.applicants;
    const selected = [...this.queue.selected].map(({ username }) => username);
    const state = selected.length ? { selected, loaded: list.length } : null;
    this.context.updateHash({ search, name: this.queue.current?.username ?? null }, state);
  }

  /** @param {ListedUser} applicant whose details were loaded */
  async prefetchNext(applicant) {
    const { shown, current } = this.queue;
    const next = shown[shown.indexOf(applicant) + 1];
    if (next !== undefined && applicant === current) {
      await this.applicants.prefetch(next.username);
    }
  }

  // --- Showing ---

  renderList() {
    const { shown, left, position, current, selected } = this.queue;
    const isSearch = this.applicants.search !== "";
    const count = formatNumber(left);
    this.count.textContent = left ? t(isSearch ? "queue_found" : "queue_count", { count }) : "";
    this.noMatches.textContent = isSearch && left === 0 ? t("users_none") : "";
    this.empty.hidden = left > 0 || isSearch;
    this.split.hidden = shown.length === 0 && !isSearch;
    this.toList.textContent = t("queue_place", { place: position, count: left });
    this.list.render(shown, current, selected);
  }

  /**
   * Open an applicant at the operator's request, and move the focus there.
   *
   * @param {ListedUser} applicant
   */
  open(applicant) {
    this.pane.value = "card";
    this.show(applicant);
  }

  /** @param {ListedUser} applicant to move on to; a phone goes on showing the list: a second tap hits nobody's card */
  show(applicant) {
    this.notFound.remove();
    this.queue.current = applicant;
    if (!this.list.focus(applicant)) {
      this.card.focus();
    }
  }

  showList() {
    this.pane.value = "list";
    this.list.focus(this.queue.current);
  }

  /** @param {1 | -1} positions */
  move(positions) {
    const applicant = this.queue.neighbour(positions);
    if (applicant !== null) {
      this.open(applicant);
      this.loadAhead();
    }
  }

  // --- Deciding ---

  /** @param {ActionName} name */
  async act(name, applicants = this.queue.targets) {
    const usernames = applicants.map(({ username }) => username);
    if (usernames.length === 0) {
      return;
    }
    if (name === "approve") {
      this.context.decide({ decision: "approve", usernames, applicants: usernames });
    } else if (name === "reject") {
      await this.context.askAndDecide("reject", usernames, { key: "r", applicants: usernames });
    } else {
      await this.context.askAndDecide("approve", usernames, { key: "a", applicants: usernames });
    }
  }

  /** @type {import("../pending/pending-decisions.js").ChangeListener} */
  handleDecision(change, entry, results) {
    if (entry === null) {
      return;
    }
    if (change === "added") {
      this.openNext(entry.usernames);
    } else if (change === "sent") {
      removeDecided(this.applicants, results);
    } else if (change === "refused") {
      removeDecided(this.applicants, entry.refusals);
      this.reopen(entry.usernames);
    } else if (change === "undone") {
      this.reopen(entry.usernames);
    }
  }

  /**
   * Go on to the next applicant after a decision about these users.
   *
   * @param {string[]} usernames
   */
  openNext(usernames) {
    if (this.queue.deselect(usernames)) {
      const next = this.queue.nextAfterDecision();
      if (next === null) {
        this.queue.current = null;
      } else {
        this.show(next);
      }
    }
    this.loadAhead();
  }

  /**
   * Open the first of these users again: a decision about them was undone or refused.
   *
   * @param {string[]} usernames
   */
  reopen(usernames) {
    const { shown } = this.queue;
    if (usernames.length > 1) {
      this.queue.reselect(usernames);
    }
    const found = usernames.map((username) => this.applicants.find(username));
    const first = found.find((applicant) => applicant !== null && shown.includes(applicant));
    if (first) {
      this.show(first);
    }
  }

  // --- Events ---

  /**
   * @param {{ username: string, status: string, by: string }} event
   * @param {string} name
   */
  handleEvent({ username, status, by }, name) {
    if (this.context.pendingFor(username)?.state === "sending") {
      return; // our own decision, whose answer is on its way
    }
    if (status !== "pending") {
      const values = { operator: by, name: username, status: statusName(status) };
      this.remove(username, t("decided_elsewhere", values));
    } else if (name === "user_registered" && this.applicants.find(username) === null) {
      this.addArrival(username);
    } else {
      this.refresh.now(); // the user is back in the queue, has registered again, or has changed the answers
      if (name === ANSWERS_CHANGED && this.queue.current?.username === username) {
        notice.show(t("answers_changed", { name: username })); // they may have been read already
      }
    }
  }

  /**
   * @param {string} username
   * @param {string} message
   */
  remove(username, message) {
    if (this.queue.remove(username)) {
      notice.show(message);
    }
  }

  /** @param {string} username */
  addArrival(username) {
    if (this.arrived.size === 0) {
      setTimeout(() => this.loadArrived().catch((error) => notice.showRefusal(asRefusal(error))), ARRIVAL_DELAY);
    }
    this.arrived.add(username);
  }

  async loadArrived() {
    const names = [...this.arrived];
    this.arrived.clear();
    if (this.context.isOver) {
      return;
    }
    if (await this.applicants.loadNew(names)) {
      this.queue.openFirst();
    } else {
      await this.refresh.now();
    }
  }
}

/**
 * Remove the users who are no longer pending, or no longer exist.
 *
 * @param {Applicants} applicants
 * @param {DecisionOutcome[]} outcomes
 */
function removeDecided(applicants, outcomes) {
  for (const { username, status = "pending", code } of outcomes) {
    if (status !== "pending" || code === "user_not_found") {
      applicants.remove(username);
    }
  }
}
