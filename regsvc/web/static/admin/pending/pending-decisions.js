// Decisions that wait ten seconds before they are sent, so that they can be taken back. None is lost silently: they are
// sent when the page is left, come back when the browser threw the page out of memory, and stay if they cannot be sent.

import { Refusal } from "../../shared/api.js";
import { language } from "../../shared/i18n.js";
import { keep, recall } from "../browser-storage.js";

const UNDO_TIME = 10_000; // milliseconds
const TICK = 1000; // milliseconds
const MOST_AT_ONCE = 50; // names in one request; the API takes 100, but more of them take longer than a request may
const KEPT = "waiting";

/** Refusals of one among many that say nothing about him: it can be tried again. */
const PASSING = ["database_away", "players_away", "overloaded", "rate_limited", "mail_unavailable", "internal"];

/** What a user is after a decision; who is that already needs it no more. */
export const OUTCOMES = { approve: "approved", reject: "rejected", ban: "banned", unban: "approved", delete: "deleted" };

/**
 * One decision: about whom, what, and how far it is. `state`: "waiting", "sending" (its turn comes, or it is under way),
 * "unsent" (`message` says why; it can be tried again) or "refused" (`refusals`: `[{username, code, message, status}]`).
 */
class Entry {
  constructor({ decision, usernames, reason = "", silent = false, expiresAt = undefined }) {
    Object.assign(this, { decision, usernames, reason, silent, expiresAt });
    this.wait();
  }

  wait() {
    this.state = "waiting";
    this.dueAt = Date.now() + UNDO_TIME;
    this.message = "";
    this.refusals = [];
    this.isUnderWay = false;
    this.isUnsure = false; // whether it may have arrived although nobody answered
  }

  get secondsLeft() {
    return Math.max(0, Math.ceil((this.dueAt - Date.now()) / 1000));
  }

  /** What entries that are sent in one request have in common. */
  get body() {
    const { reason, silent, expiresAt } = this;
    return { ...(reason ? { reason } : {}), ...(silent ? { silent } : {}), ...(expiresAt === undefined ? {} : { expiresAt }) };
  }

  get kind() {
    return JSON.stringify([this.decision, this.body]);
  }
}

export class Pending {
  /** `tell(what, entry, facts)` is told "added", "undone", "sending", "unsent", "sent" (`facts.results`), "refused", "tick". */
  constructor(api, tell) {
    Object.assign(this, { api, tell });
    this.entries = [];
    this.index = null; // entries by name, until something changes
    this.operator = null;
    this.queue = Promise.resolve();
    setInterval(() => this.tick(), TICK);
    addEventListener("pagehide", () => this.leave());
    addEventListener("beforeunload", (event) => {
      if (this.entries.some(({ state }) => state === "unsent")) {
        event.preventDefault(); // the browser asks whether to go
      }
    });
  }

  /** Somebody is logged in. Comes back with the decisions of somebody else before, which are dropped: `[Entry]`. */
  begin(operator) {
    const kept = recall(KEPT, null, "sessionStorage");
    const isSame = (other) => other !== null && other.toLowerCase() === operator.toLowerCase();
    let dropped = [];
    if (this.operator === null && kept !== null) {
      const entries = kept.entries.map((entry) => new Entry(entry));
      dropped = isSame(kept.operator) ? [] : entries;
      this.entries = isSame(kept.operator) ? entries : [];
      this.entries.forEach((entry) => this.tell("added", entry));
    } else if (this.operator !== null && !isSame(this.operator)) {
      dropped = this.entries.filter(({ state }) => state !== "refused");
      dropped.forEach((entry) => this.forget(entry, "undone"));
    }
    this.operator = operator;
    this.changed("tick", null);
    return dropped;
  }

  /** Nobody is logged in any more; `message` says why nothing can be sent. */
  pause(message) {
    this.entries.filter(({ state }) => state === "waiting").forEach((entry) => this.hold(entry, message));
  }

  /** What was decided before about the same people and waits is replaced by it. */
  add(decided) {
    const older = new Set(decided.usernames.map((username) => this.find(username)));
    [...older].filter((entry) => entry !== null && entry.state !== "sending").forEach((entry) => this.take(entry, decided.usernames));
    const entry = new Entry(decided);
    this.entries.push(entry);
    this.changed("added", entry);
    return entry;
  }

  /** The decision about this person that waits or is under way, or null. */
  find(username) {
    if (this.index === null) {
      const standing = this.entries.filter(({ state }) => state !== "refused");
      this.index = new Map(standing.flatMap((entry) => entry.usernames.map((name) => [name.toLowerCase(), entry])));
    }
    return this.index.get(username.toLowerCase()) ?? null;
  }

  /** Comes back with whether there still was something to take back. */
  undo(entry) {
    if (!this.entries.includes(entry) || !["waiting", "unsent"].includes(entry.state)) {
      return false;
    }
    this.forget(entry, "undone");
    return true;
  }

  /** Comes back with the entry that was taken back, or null. */
  undoLast() {
    const last = this.entries.findLast(({ state }) => ["waiting", "unsent"].includes(state)) ?? null;
    if (last !== null) {
      this.undo(last);
    }
    return last;
  }

  /** These people need the decision no more: somebody else has decided. */
  take(entry, usernames) {
    const gone = new Set(usernames.map((name) => name.toLowerCase()));
    entry.usernames = entry.usernames.filter((name) => !gone.has(name.toLowerCase()));
    if (entry.usernames.length === 0) {
      this.forget(entry, "undone");
    } else {
      this.changed("tick", entry);
    }
  }

  /** One whose answer was lost has arrived, as is heard now. */
  confirm(entry, username) {
    const isOther = (name) => name.toLowerCase() !== username.toLowerCase();
    entry.usernames = entry.usernames.filter(isOther);
    this.tell("sent", entry, { results: [{ username, status: OUTCOMES[entry.decision] }] });
    if (entry.usernames.length === 0) {
      this.forget(entry, "tick");
    } else {
      this.changed("tick", entry);
    }
  }

  /** Its refusals were read. */
  dismiss(entry) {
    this.forget(entry, "tick");
  }

  /** Nobody shall see any more what there was. */
  clear() {
    this.entries = [];
    this.operator = null;
    this.changed("tick", null);
  }

  /** Send all that wait now. Comes back when an answer has come for each; `true` if nothing is left to be sent. */
  async flush() {
    this.send(this.entries.filter(({ state }) => ["waiting", "unsent"].includes(state)));
    await this.queue;
    return !this.entries.some(({ state }) => state !== "refused");
  }

  tick() {
    const due = this.entries.filter(({ state, dueAt }) => state === "waiting" && dueAt <= Date.now());
    if (due.length) {
      this.send(due);
    } else if (this.entries.length) {
      this.tell("tick", null);
    }
  }

  /** One request for all that say the same, one request after the other. */
  send(entries) {
    entries.forEach((entry) => {
      entry.state = "sending";
      this.changed("sending", entry);
    });
    for (const alike of Object.values(groupBy(entries, ({ kind }) => kind))) {
      this.queue = this.queue.then(() => this.deliver(alike));
    }
  }

  async deliver(entries) {
    entries.forEach((entry) => (entry.isUnderWay = true));
    const results = new Map();
    let refusal = null;
    const usernames = entries.flatMap((entry) => entry.usernames);
    for (let start = 0; start < usernames.length && refusal === null; start += MOST_AT_ONCE) {
      const names = usernames.slice(start, start + MOST_AT_ONCE);
      try {
        const { results: told } = await this.post(entries[0], names);
        told.forEach((result, place) => results.set(names[place], result));
      } catch (error) {
        if (!(error instanceof Refusal)) {
          throw error;
        }
        refusal = error;
      }
    }
    entries.forEach((entry) => this.settle(entry, results, refusal));
  }

  post({ decision, body }, usernames) {
    return this.api.ask(`api/admin/user/${decision}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ usernames, ...body, language }),
      keepalive: true, // goes on when the page is left meanwhile
    });
  }

  settle(entry, results, refusal) {
    const isDone = ({ success, code, status }) => success || (entry.isUnsure && code === "wrong_status" && status === OUTCOMES[entry.decision]);
    const isPassing = (name) => PASSING.includes(results.get(name)?.code);
    const rest = entry.usernames.filter((name) => !results.has(name) || isPassing(name));
    const told = entry.usernames.filter((name) => !rest.includes(name)).map((name) => results.get(name));
    const refusals = told.filter((result) => !isDone(result));
    const done = told.filter(isDone);
    if (done.length) {
      this.tell("sent", entry, { results: done });
    }
    if (refusals.length) {
      const refused = new Entry({ ...entry, usernames: refusals.map(({ username }) => username) });
      Object.assign(refused, { state: "refused", refusals });
      this.entries.push(refused);
      this.changed("refused", refused);
    }
    if (rest.length) {
      entry.usernames = rest;
      entry.isUnsure ||= refusal !== null && (refusal.status === 0 || refusal.status >= 500);
      this.hold(entry, refusal?.message ?? results.get(rest[0]).message);
    } else {
      this.forget(entry, "tick");
    }
  }

  hold(entry, message) {
    Object.assign(entry, { state: "unsent", isUnderWay: false, message });
    this.changed("unsent", entry);
  }

  forget(entry, what) {
    this.entries = this.entries.filter((other) => other !== entry);
    this.changed(what, entry);
  }

  changed(what, entry) {
    this.index = null;
    this.keep();
    this.tell(what, entry);
  }

  /** Browsers throw pages out of memory without a word: what waits comes back with the tab. */
  keep() {
    const waiting = this.entries.filter(({ state }) => ["waiting", "unsent"].includes(state));
    const entries = waiting.map(({ decision, usernames, reason, silent, expiresAt }) => ({ decision, usernames, reason, silent, expiresAt }));
    keep(KEPT, entries.length ? { operator: this.operator, entries } : null, "sessionStorage");
  }

  /** All at once, as nobody will be there to go on with the next one; and nobody to hear the answers. */
  leave() {
    if (this.api.session.current === null || !navigator.onLine) {
      return; // they stay in the tab, and come back with it
    }
    const unsent = this.entries.filter(({ state, isUnderWay }) => state !== "refused" && !isUnderWay);
    for (const alike of Object.values(groupBy(unsent, ({ kind }) => kind))) {
      const usernames = alike.flatMap((entry) => entry.usernames);
      for (let start = 0; start < usernames.length; start += MOST_AT_ONCE) {
        this.post(alike[0], usernames.slice(start, start + MOST_AT_ONCE)).catch(() => {});
      }
    }
    this.entries = [];
    this.changed("tick", null);
  }
}

function groupBy(list, keyOf) {
  const groups = {};
  list.forEach((item) => (groups[keyOf(item)] ??= []).push(item));
  return groups;
}
