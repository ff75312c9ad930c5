// The state of the review queue: who is shown, who is open, and who is selected. It draws nothing.

import { batch, Signal } from "../../../shared/signal.js";

export class ReviewQueue {
  /** @type {Signal<ListedUser | null>} */
  #current = new Signal(null);
  /** @type {Signal<Set<ListedUser>>} */
  #selected = new Signal(new Set());

  /**
   * @param {import("./applicants.js").Applicants} applicants
   * @param {(username: string) => boolean} isDecided whether a decision about this user is pending
   */
  constructor(applicants, isDecided) {
    this.applicants = applicants;
    this.isDecided = isDecided;
  }

  /** The applicants without a pending decision. */
  get shown() {
    return this.applicants.list.filter(({ username }) => !this.isDecided(username));
  }

  /** The number of applicants left to review, including those that are not loaded yet. */
  get left() {
    const { shown } = this;
    const decided = this.applicants.list.length - shown.length;
    return Math.max(shown.length, this.applicants.total - decided);
  }

  /** The applicant who is open, or null. */
  get current() {
    return this.#current.value;
  }

  set current(applicant) {
    this.#current.value = applicant;
  }

  /** The position of the current applicant, from 1; 0 for none. */
  get position() {
    return this.current === null ? 0 : this.shown.indexOf(this.current) + 1;
  }

  get selected() {
    return this.#selected.value;
  }

  /** The applicants a decision is about: the selected ones, or else the current one. */
  get targets() {
    if (this.selected.size > 0) {
      return this.shown.filter((applicant) => this.selected.has(applicant));
    }
    return this.current === null ? [] : [this.current];
  }

  /** Load the queue again: who is open and selected when it is there stays so. Throws a Refusal. */
  async load() {
    await this.applicants.load(() => {
      const { current } = this;
      this.reselect([...this.selected].map(({ username }) => username));
      this.#current.value = (current && this.applicants.find(current.username)) ?? this.shown[0] ?? null;
    });
  }

  /** Open the first applicant if none is open. */
  openFirst() {
    if (this.current === null) {
      this.current = this.shown[0] ?? null;
    }
  }

  /**
   * Return the applicant so many positions further, or null at the end.
   *
   * @param {number} positions
   */
  neighbour(positions) {
    const { shown } = this;
    const index = this.current === null ? -1 : shown.indexOf(this.current);
    const target = shown[Math.min(Math.max(index + positions, 0), shown.length - 1)] ?? null;
    return target === this.current ? null : target;
  }

  /**
   * Take users who were decided about out of the selection; returns whether the current one is among them.
   *
   * @param {string[]} usernames
   */
  deselect(usernames) {
    const gone = new Set(usernames.map((name) => name.toLowerCase()));
    const isGone = (/** @type {ListedUser} */ { username }) => gone.has(username.toLowerCase());
    this.#selected.value = new Set([...this.selected].filter((applicant) => !isGone(applicant)));
    return this.current === null || isGone(this.current);
  }

  /** Return the applicant to open once the current one is decided about or asked: the next, else the last; or null. */
  nextAfterDecision() {
    const { list } = this.applicants;
    const behind = new Set(list.slice(this.current === null ? 0 : list.indexOf(this.current) + 1));
    const others = this.shown.filter((applicant) => applicant !== this.current);
    return others.find((applicant) => behind.has(applicant)) ?? others.at(-1) ?? null;
  }

  /**
   * Remove an applicant; if they were open, a neighbour is opened. Returns whether they were in the queue.
   *
   * @param {string} username
   */
  remove(username) {
    const applicant = this.applicants.find(username);
    if (applicant === null) {
      return false;
    }
    batch(() => {
      if (applicant === this.current) {
        const { shown } = this;
        const index = shown.indexOf(applicant);
        this.current = shown[index + 1] ?? shown[index - 1] ?? null;
      }
      this.applicants.remove(username);
      this.select(applicant, false);
    });
    return true;
  }

  /**
   * @param {ListedUser} applicant
   * @param {boolean} isSelected
   */
  select(applicant, isSelected) {
    const selected = new Set(this.selected);
    if (isSelected) {
      selected.add(applicant);
    } else {
      selected.delete(applicant);
    }
    this.#selected.value = selected;
  }

  /** Select every applicant, also those that are not loaded yet. Throws a Refusal. */
  async selectAll() {
    await this.applicants.loadAll();
    this.#selected.value = new Set(this.shown);
  }

  /**
   * Select applicants again whom an undone decision was about.
   *
   * @param {string[]} usernames
   */
  reselect(usernames) {
    const names = new Set(usernames.map((name) => name.toLowerCase()));
    this.#selected.value = new Set(this.shown.filter(({ username }) => names.has(username.toLowerCase())));
  }

  /**
   * Select the applicants who were selected when this many were loaded. Throws a Refusal.
   *
   * @param {string[]} usernames
   * @param {number} loaded
   */
  async restoreSelection(usernames, loaded) {
    while (usernames.length > 0 && this.applicants.list.length < loaded && (await this.applicants.loadMore())) {}
    this.reselect(usernames);
  }

  /**
   * Open the applicant with this name, loading pages until they are found; returns whether they are in the queue.
   * Throws a Refusal.
   *
   * @param {string} username
   */
  async openByName(username) {
    while (this.applicants.find(username) === null && (await this.applicants.loadMore())) {}
    const found = this.applicants.find(username);
    this.current = found !== null && this.shown.includes(found) ? found : this.current;
    return found !== null;
  }

  selectNone() {
    this.#selected.value = new Set();
  }
}
