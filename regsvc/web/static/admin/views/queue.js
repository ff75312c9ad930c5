// The review queue: applicants, oldest first. One key approves, one rejects, and the next applicant opens.

import { asRefusal } from "../../shared/api.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { statusesOf, USER_EVENTS } from "../decisions/transitions.js";
import { loadDialogs } from "../later.js";
import { may } from "../permissions.js";
import { Refresh } from "../refresh.js";
import { ApplicantCard } from "./queue/applicant-card.js";
import { ApplicantList } from "./queue/applicant-list.js";
import { Applicants } from "./queue/applicants.js";
import { QueueLayout } from "./queue/queue-layout.js";
import { QueueUpdates } from "./queue/queue-updates.js";
import { ReviewQueue } from "./queue/review-queue.js";

const MIN_AHEAD = 20; // applicants behind the current one; with fewer the next page is loaded
const ADDRESS_DELAY = 300; // milliseconds
const MINUTE = 60_000; // milliseconds

/** @typedef {import("./queue/applicant-summary.js").ActionName} ActionName */

/** @type {View} */
export const queueView = {
  id: "queue",
  title: "view_queue",

  async render(context, { name = "", ...filters }) {
    const page = new QueuePage(context, filters);
    const { selected = [], loaded = 0 } = history.state ?? {};
    await page.load();
    await page.openNamed(name);
    await page.queue.restoreSelection(selected, loaded);
    page.start();
    return page.layout.element;
  },
};

/** What an operator can do in the queue: each is a method, for buttons and keys alike. */
class QueuePage {
  /**
   * @param {import("../view-context.js").ViewContext} context
   * @param {Record<string, string>} filters as they are in the address
   */
  constructor(context, filters) {
    this.context = context;
    this.applicants = new Applicants(context.api);
    this.applicants.filters = filters;
    this.searching = Promise.resolve();
    this.queue = new ReviewQueue(this.applicants, (username) => context.pendingFor(username) !== null);
    this.refresh = new Refresh(context, () => this.load());
    /** @type {number | null} */
    this.addressTimer = null;
    this.updates = new QueueUpdates(context, this.queue, {
      show: (applicant) => this.show(applicant),
      reload: () => this.refresh.now(),
      loadAhead: () => this.loadAhead(),
    });
    this.list = new ApplicantList({
      open: (applicant, isByKey) => this.open(applicant, isByKey),
      move: (positions) => this.move(positions),
      select: (applicant, isSelected) => this.queue.select(applicant, isSelected),
    });
    const card = new ApplicantCard(context, this.applicants, {
      act: (name, applicant) => this.act(name, [applicant]),
      onShown: (applicant) => this.prefetchNext(applicant),
      onGone: ({ username }) => this.updates.remove(username, t("gone_meanwhile", { name: username })),
    });
    /** @type {import("./queue/overview.js").OverviewStrip | null} */
    this.overview = null;
    this.isEarly = context.rest === null; // whether it is loaded before events are received
    this.layout = new QueueLayout(context, this.queue, this.list, card, {
      act: (name) => this.act(name),
      move: (positions) => this.move(positions),
      selectAll: () => this.selectAll(),
      search: (filters) => this.search(filters),
      finishSearch: () => this.finishSearch(),
      loadMore: () => this.loadMore(),
    });
  }

  /** Draw the queue, and follow events, pending decisions and keys from now on. */
  start() {
    const { context, queue } = this;
    this.layout.start(context);
    context.effect(() => {
      void queue.current;
      void queue.selected;
      this.updateAddressSoon();
    });
    context.onEvent(USER_EVENTS, (data, name) => this.updates.handleEvent(data, name));
    context.onEvent(["missed"], () => this.refresh.now());
    context.onDecision((change, entry, results) => this.updates.handleDecision(change, entry, results));
    context.addKeys(this.keyBindings);
    const clock = setInterval(() => this.updateTimes(), MINUTE);
    context.onLeave(() => {
      clearInterval(clock);
      clearTimeout(this.addressTimer ?? undefined);
    });
    this.complete();
  }

  /** Show the figures, and who else reads; load again what has changed before events were received. */
  async complete() {
    const { context, queue } = this;
    const { OverviewStrip, Readers, updates } = await context.loadRest();
    if (context.isOver) {
      return;
    }
    this.overview = new OverviewStrip(context, updates, this.layout.overview);
    const readers = new Readers(context);
    this.layout.showAbove(readers.element);
    context.effect(() => readers.follow(queue.current?.username ?? ""));
    if (this.isEarly) {
      await this.catchUp();
    }
  }

  async catchUp() {
    try {
      if (!(await this.applicants.haveChanged())) {
        return;
      }
    } catch (error) {
      asRefusal(error); // loading again reports it
    }
    await this.refresh.now();
  }

  updateTimes() {
    this.list.updateTimes();
    this.overview?.render();
  }

  /** @returns {import("../keyboard.js").Bindings} */
  get keyBindings() {
    const { context, queue } = this;
    return {
      a: { label: "key_approve", action: () => this.act("approve") },
      r: { label: "key_reject", action: () => this.act("reject") },
      A: { label: "key_approve_words", action: () => this.act("approve_words") },
      ...(may("users.review") ? { q: { label: "key_ask", action: () => this.act("ask") } } : {}),
      "j ArrowDown": { label: "key_next", action: () => this.move(1), repeats: true },
      "k ArrowUp": { label: "key_previous", action: () => this.move(-1), repeats: true },
      x: {
        label: "key_choose",
        action: () => queue.current && queue.select(queue.current, !queue.selected.has(queue.current)),
      },
      X: { label: "key_choose_all", action: () => this.selectAll() },
      "/": { label: "key_search", action: () => this.layout.focusSearch() },
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

  /** @param {ListedUser} applicant whose details were loaded */
  async prefetchNext(applicant) {
    const { shown, current } = this.queue;
    const next = shown[shown.indexOf(applicant) + 1];
    if (next !== undefined && applicant === current) {
      await this.applicants.prefetch(next.username);
    }
  }

  /** @param {Record<string, string>} filters */
  async search(filters) {
    if (this.context.isOver) {
      return; // typed just before the view was left
    }
    this.applicants.filters = filters;
    this.updateAddress();
    this.searching = this.refresh.now();
    await this.searching;
  }

  async finishSearch() {
    await this.searching;
    this.list.focus(this.queue.current);
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
      this.layout.showNotFound(name);
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
    const { filters, list } = this.applicants;
    const selected = [...this.queue.selected].map(({ username }) => username);
    const state = selected.length ? { selected, loaded: list.length } : null;
    this.context.updateHash({ ...filters, name: this.queue.current?.username ?? null }, state);
  }

  // --- Opening and deciding ---

  /**
   * Open an applicant at the operator's request, and move the focus there.
   *
   * @param {ListedUser} applicant
   * @param {boolean} isByKey whether the row was opened with Enter: then the focus moves into the card
   */
  open(applicant, isByKey = false) {
    this.layout.showCard();
    this.show(applicant);
    if (isByKey) {
      this.layout.focusCard();
    }
  }

  /** @param {ListedUser} applicant */
  show(applicant) {
    this.queue.current = applicant;
    this.layout.focusOn(applicant);
  }

  /** @param {1 | -1} positions */
  move(positions) {
    const applicant = this.queue.neighbour(positions);
    if (applicant !== null) {
      this.open(applicant);
      this.loadAhead();
    }
  }

  /**
   * @param {ActionName} name
   * @param {ListedUser[]} applicants
   */
  async act(name, applicants = this.queue.targets) {
    const usernames = applicants.map(({ username }) => username);
    const shown = statusesOf(applicants);
    if (usernames.length === 0) {
      return;
    }
    if (name === "approve") {
      this.context.decide({ decision: "approve", usernames, shown });
    } else if (name === "reject") {
      await this.context.askAndDecide("reject", usernames, { key: "r", shown });
    } else if (name === "ask") {
      await this.ask(applicants);
    } else if (name === "ban" || name === "delete") {
      await (await this.context.loadRest()).decideFor(this.context, name, applicants);
    } else {
      await this.context.askAndDecide("approve", usernames, { key: "a", shown });
    }
  }

  /**
   * Ask an applicant something, and open the next one.
   *
   * @param {ListedUser[]} applicants of whom only one can be asked
   */
  async ask([applicant, ...others]) {
    if (others.length > 0) {
      notice.show(t("ask_one"));
      return;
    }
    const next = this.queue.nextAfterDecision(); // before an event moves the applicant to another place
    const dialogs = await loadDialogs();
    if (dialogs === null || this.context.isOver) {
      return;
    }
    if (!(await dialogs.askApplicant(this.context, applicant.username)) || this.context.isOver) {
      return;
    }
    const found = next && this.applicants.find(next.username);
    if (this.queue.deselect([applicant.username]) && found) {
      this.show(found);
    }
    await this.refresh.now();
  }
}
