// Who waits, oldest first: asked for page by page, kept true by events, and with everything about who is looked at.

import { Refusal } from "../../../shared/api.js";

const PAGE = 100; // people
const MOST_NEW = 100; // in one question; of more the list is asked for from its beginning
const KEPT_DETAILS = 50; // people about whom everything is remembered

export class People {
  constructor(api) {
    this.api = api;
    this.list = [];
    this.cursor = null; // null: the list is whole
    this.total = 0;
    this.details = new Map(); // by name, promises
    this.loading = null;
  }

  /** The first page. Throws a Refusal. */
  async load() {
    const { users, nextCursor, pagination } = await this.api.get("admin/users", { status: "pending", size: PAGE });
    Object.assign(this, { list: users, cursor: nextCursor, total: pagination.totalCount });
    this.details.clear();
  }

  /** The next page, if there is one and it is not on its way. Comes back with whether something came. Throws a Refusal. */
  async loadMore() {
    if (this.cursor === null || this.loading !== null) {
      return false;
    }
    this.loading = this.api.get("admin/users", { status: "pending", size: PAGE, after: this.cursor });
    try {
      const { users, nextCursor, pagination } = await this.loading;
      this.add(users);
      Object.assign(this, { cursor: nextCursor, total: pagination.totalCount });
    } finally {
      this.loading = null;
    }
    return true;
  }

  /** These have registered just now; they come last. Comes back with those who are new here. Throws a Refusal. */
  async loadNew(names) {
    if (this.cursor !== null) {
      this.total += names.length; // they are on a page that was not asked for yet
      return [];
    }
    if (names.length > MOST_NEW) {
      await this.load();
      return [];
    }
    const { users } = await this.api.get("admin/users", { status: "pending", size: names.length, sort: "newest" });
    return this.add(users.reverse());
  }

  add(users) {
    const news = users.filter(({ username }) => this.find(username) === null);
    this.list.push(...news);
    this.total += this.cursor === null ? news.length : 0;
    return news;
  }

  find(username) {
    const key = username.toLowerCase();
    return this.list.find((person) => person.username.toLowerCase() === key) ?? null;
  }

  /** This person waits no more, or is another one by now. */
  remove(username) {
    const person = this.find(username);
    this.details.delete(username.toLowerCase());
    if (person !== null) {
      this.list = this.list.filter((other) => other !== person);
      this.total = Math.max(0, this.total - 1);
    }
  }

  /** Everything about a person, asked for once. Throws a Refusal. */
  lookAt(username) {
    const key = username.toLowerCase();
    if (!this.details.has(key)) {
      const asked = this.api.get("admin/user", { username }).then(({ user }) => user);
      asked.catch(() => this.details.delete(key)); // it can be asked for again
      this.details.set(key, asked);
      if (this.details.size > KEPT_DETAILS) {
        this.details.delete(this.details.keys().next().value);
      }
    }
    return this.details.get(key);
  }

  /** Ask already for whom one will look at next; whether it succeeds is told when he is looked at. */
  async lookAhead(username) {
    try {
      await this.lookAt(username);
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
    }
  }
}
