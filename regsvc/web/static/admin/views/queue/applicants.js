// The applicants, oldest first: loaded page by page, kept up to date by events, with the details of those opened.

import { asRefusal } from "../../../shared/api.js";
import { batch, Signal } from "../../../shared/signal.js";
import { firstQueuePage, loadQueuePage } from "../../queue-pages.js";

const MAX_NEW = 100; // in one request; for more of them the list is loaded again
const MAX_CACHED = 50; // applicants whose details are remembered

export class Applicants {
  /** @type {Signal<ListedUser[]>} */
  #list = new Signal([]);
  #total = new Signal(0);
  /** @type {Map<string, Promise<UserDetails>>} by name */
  #details = new Map();
  /** @type {string | null} null: the list is complete */
  #cursor = null;
  #first = ""; // the first page, as it was loaded
  /** @type {Promise<void> | null} of the next page, while it is being loaded */
  #loading = null;

  /** @param {import("../../../shared/api.js").Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Record<string, string>} as they are in the address; they take effect with the next `load` */
    this.filters = {};
  }

  get isFiltered() {
    return Object.keys(this.filters).length > 0;
  }

  /** The applicants loaded so far. Effects follow the list and the total. */
  get list() {
    return this.#list.value;
  }

  get total() {
    return this.#total.value;
  }

  /**
   * Load the first page; `onLoaded` runs before effects see it. Throws a Refusal.
   *
   * @param {() => void} onLoaded
   */
  async load(onLoaded = () => {}) {
    const { filters } = this;
    const page = await firstQueuePage(this.api, filters);
    const { users, nextCursor, pagination } = page;
    if (filters !== this.filters) {
      return; // a later search is shown instead
    }
    this.#first = JSON.stringify(page);
    batch(() => {
      this.#list.value = users;
      this.#cursor = nextCursor;
      this.#setTotal(pagination.totalCount);
      this.#details.clear();
      onLoaded();
    });
  }

  /** @param {number | null} count null: it was not counted, there are too many, or only those loaded are known */
  #setTotal(count) {
    this.#total.value = count ?? (this.filters.show ? this.list.length : 100_000);
  }

  /** Return whether the first page has changed since it was loaded. Throws a Refusal. */
  async haveChanged() {
    return JSON.stringify(await loadQueuePage(this.api, this.filters)) !== this.#first;
  }

  /** Whether all applicants are loaded. */
  get isComplete() {
    return this.#cursor === null;
  }

  /** Load the next page; returns whether there was one. Throws a Refusal. */
  async loadMore() {
    if (this.#cursor === null) {
      return false;
    }
    this.#loading ??= this.#loadNextPage(this.#cursor);
    try {
      await this.#loading;
    } finally {
      this.#loading = null;
    }
    return true;
  }

  /** Load all pages. Throws a Refusal. */
  async loadAll() {
    while (!this.isComplete) {
      await this.loadMore();
    }
  }

  /** @param {string} after */
  async #loadNextPage(after) {
    const { users, nextCursor, pagination } = await loadQueuePage(this.api, this.filters, { after });
    if (after !== this.#cursor) {
      return; // the list was loaded again meanwhile
    }
    batch(() => {
      this.add(users);
      this.#cursor = nextCursor;
      this.#setTotal(pagination.totalCount);
    });
  }

  /**
   * Load users who have just registered; they come last of those who wait for the team. Returns false if the list has
   * to be loaded again instead: there are too many of them, or a search may not match them. Throws a Refusal.
   *
   * @param {string[]} names
   */
  async loadNew(names) {
    if (this.isFiltered) {
      return false;
    }
    if (this.#cursor !== null) {
      this.#total.value += names.length; // they are on a page that is not loaded yet
      return true;
    }
    if (names.length > MAX_NEW) {
      return false;
    }
    const query = { status: "pending", size: names.length, sort: "newest" };
    const { users } = await this.api.get("admin/users", query);
    this.add(users.reverse());
    return true;
  }

  /** @param {ListedUser[]} users */
  add(users) {
    const added = users.filter(({ username }) => this.find(username) === null);
    const isAsked = (/** @type {ListedUser} */ { waitingFor }) => waitingFor === "applicant";
    batch(() => {
      const all = [...this.list, ...added];
      this.#list.value = [...all.filter((user) => !isAsked(user)), ...all.filter(isAsked)];
      this.#total.value += this.#cursor === null ? added.length : 0;
    });
  }

  /** @param {string} username */
  find(username) {
    const key = username.toLowerCase();
    return this.list.find((applicant) => applicant.username.toLowerCase() === key) ?? null;
  }

  /**
   * Let the details of an applicant be loaded anew.
   *
   * @param {string} username
   */
  forget(username) {
    this.#details.delete(username.toLowerCase());
  }

  /**
   * Remove an applicant who was decided about, or whose name now belongs to another one.
   *
   * @param {string} username
   */
  remove(username) {
    const applicant = this.find(username);
    this.#details.delete(username.toLowerCase());
    if (applicant !== null) {
      batch(() => {
        this.#list.value = this.list.filter((other) => other !== applicant);
        this.#total.value = Math.max(0, this.total - 1);
      });
    }
  }

  /**
   * Return the details of an applicant, loaded once. Throws a Refusal.
   *
   * @param {string} username
   * @returns {Promise<UserDetails>}
   */
  details(username) {
    const key = username.toLowerCase();
    const known = this.#details.get(key);
    if (known !== undefined) {
      return known;
    }
    const loading = this.api.get("admin/user", { username }).then(({ user }) => user);
    loading.catch(() => this.#details.delete(key)); // it can be loaded again
    this.#details.set(key, loading);
    if (this.#details.size > MAX_CACHED) {
      const [oldest] = this.#details.keys();
      this.#details.delete(oldest);
    }
    return loading;
  }

  /**
   * Load the details of the applicant who is likely to be opened next; if that fails, opening them reports it.
   *
   * @param {string} username
   */
  async prefetch(username) {
    try {
      await this.details(username);
    } catch (error) {
      asRefusal(error);
    }
  }
}
