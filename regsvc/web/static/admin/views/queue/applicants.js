// The applicants, oldest first: loaded page by page, kept up to date by events, with the details of those opened.

import { asRefusal } from "../../../shared/api.js";
import { batch, Signal } from "../../../shared/signal.js";

const PAGE_SIZE = 100;
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
  #isLoading = false;

  /** @param {import("../../../shared/api.js").Api} api */
  constructor(api) {
    this.api = api;
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
    const { users, nextCursor, pagination } = await this.api.get("admin/users", { status: "pending", size: PAGE_SIZE });
    batch(() => {
      this.#list.value = users;
      this.#cursor = nextCursor;
      this.#total.value = pagination.totalCount ?? 0;
      this.#details.clear();
      onLoaded();
    });
  }

  /** Load the next page, if there is one and it is not being loaded; returns whether it was. Throws a Refusal. */
  async loadMore() {
    if (this.#cursor === null || this.#isLoading) {
      return false;
    }
    this.#isLoading = true;
    try {
      const query = { status: "pending", size: PAGE_SIZE, after: this.#cursor };
      const { users, nextCursor, pagination } = await this.api.get("admin/users", query);
      batch(() => {
        this.add(users);
        this.#cursor = nextCursor;
        this.#total.value = pagination.totalCount ?? 0;
      });
    } finally {
      this.#isLoading = false;
    }
    return true;
  }

  /**
   * Load users who have just registered; they come last. Throws a Refusal.
   *
   * @param {string[]} names
   */
  async loadNew(names) {
    if (this.#cursor !== null) {
      this.#total.value += names.length; // they are on a page that is not loaded yet
      return;
    }
    if (names.length > MAX_NEW) {
      await this.load();
      return;
    }
    const query = { status: "pending", size: names.length, sort: "newest" };
    const { users } = await this.api.get("admin/users", query);
    this.add(users.reverse());
  }

  /** @param {ListedUser[]} users */
  add(users) {
    const added = users.filter(({ username }) => this.find(username) === null);
    batch(() => {
      this.#list.value = [...this.list, ...added];
      this.#total.value += this.#cursor === null ? added.length : 0;
    });
  }

  /** @param {string} username */
  find(username) {
    const key = username.toLowerCase();
    return this.list.find((applicant) => applicant.username.toLowerCase() === key) ?? null;
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
