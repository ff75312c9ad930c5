// Decisions that wait ten seconds before they are sent, so that they can be undone. None is lost silently: they are
// sent when the page is left, are restored when the browser had discarded the page, and are sent again and again if
// the server cannot be reached.

import { Refusal } from "../../shared/api.js";
import { batch, Signal } from "../../shared/signal.js";
import { recall, store } from "../browser-storage.js";
import { OUTCOMES } from "../decisions/transitions.js";
import { PendingDecision } from "./pending-decision.js";

const TICK = 1000; // milliseconds
const MAX_PER_REQUEST = 50; // names; the API takes 100, but more of them take longer than a request may
const STORAGE_KEY = "waiting";

/** Refusals that are not about the users: the decision is sent again. */
const TEMPORARY = [
  "unreachable",
  "database_away",
  "players_away",
  "overloaded",
  "busy",
  "rate_limited",
  "mail_unavailable",
  "internal",
];

/**
 * "sent" comes with the results of the users it was carried out for.
 *
 * @typedef {"added" | "undone" | "sending" | "unsent" | "sent" | "refused" | "changed"} Change
 */

/** @typedef {(change: Change, entry: PendingDecision | null, results: DecisionOutcome[]) => void} ChangeListener */

export class PendingDecisions {
  /** @type {Signal<PendingDecision[]>} */
  #entries = new Signal([]);
  /** @type {Map<string, PendingDecision> | null} by name, until something changes */
  #index = null;

  /**
   * @param {import("../../shared/api.js").Api} api
   * @param {ChangeListener} emit
   */
  constructor(api, emit) {
    this.api = api;
    this.emit = emit;
    /** Changes every second while there are entries: for countdowns. */
    this.clock = new Signal(0);
    /** @type {string | null} */
    this.operator = null;
    this.queue = Promise.resolve();
    setInterval(() => this.tick(), TICK);
    addEventListener("online", () => this.resend());
    addEventListener("pagehide", () => this.sendOnLeave());
    addEventListener("beforeunload", (event) => {
      if (this.entries.some(({ state }) => state === "unsent")) {
        event.preventDefault(); // the browser asks whether to leave
      }
    });
  }

  /** All of them, oldest first. Effects that read it run again when one of them changes. */
  get entries() {
    return this.#entries.value;
  }

  /** The number of applicants who are decided about, but still wait on the server. */
  get reviewCount() {
    return this.entries.reduce((sum, entry) => sum + entry.reviewCount, 0);
  }

  /**
   * Restore what was pending for this operator; returns the decisions of another operator, which are dropped.
   *
   * @param {string} operator
   * @returns {PendingDecision[]}
   */
  begin(operator) {
    const stored = recall(STORAGE_KEY, null, "sessionStorage");
    const isSame = (/** @type {string | null} */ other) => other?.toLowerCase() === operator.toLowerCase();
    /** @type {PendingDecision[]} */
    let dropped = [];
    if (this.operator === null && stored !== null) {
      /** @type {PendingDecision[]} */
      const entries = stored.entries.map(
        (/** @type {import("./pending-decision.js").DecisionFields} */ entry) => new PendingDecision(entry),
      );
      dropped = isSame(stored.operator) ? [] : entries;
      this.operator = operator;
      const kept = isSame(stored.operator) ? entries : [];
      kept.forEach((entry) => this.changed("added", entry, [...this.entries, entry]));
    } else if (this.operator !== null && !isSame(this.operator)) {
      dropped = this.entries.filter(({ state }) => state !== "refused");
      dropped.forEach((entry) => this.remove(entry, "undone"));
    }
    this.operator = operator;
    this.entries.filter(({ state }) => state === "unsent").forEach((entry) => entry.wait());
    this.changed("changed", null);
    return dropped;
  }

  /**
   * Hold everything back because the operator is logged out.
   *
   * @param {string} message why nothing can be sent
   */
  pause(message) {
    this.entries.filter((entry) => entry.canUndo).forEach((entry) => this.hold(entry, message, false));
  }

  /**
   * Add a decision; it replaces waiting ones about the same users.
   *
   * @param {import("./pending-decision.js").DecisionFields} fields
   */
  add(fields) {
    for (const older of new Set(fields.usernames.map((username) => this.find(username)))) {
      if (older !== null && older.state !== "sending") {
        this.removeUsers(older, fields.usernames);
      }
    }
    const entry = new PendingDecision(fields);
    this.changed("added", entry, [...this.entries, entry]);
    return entry;
  }

  /**
   * Return the decision about a user that waits or is under way, or null.
   *
   * @param {string} username
   */
  find(username) {
    const { entries } = this;
    if (this.#index === null) {
      const active = entries.filter(({ state }) => state !== "refused");
      this.#index = new Map(active.flatMap((entry) => entry.usernames.map((name) => [name.toLowerCase(), entry])));
    }
    return this.#index.get(username.toLowerCase()) ?? null;
  }

  /**
   * Undo a decision; returns whether it was still possible.
   *
   * @param {PendingDecision} entry
   */
  undo(entry) {
    if (!this.entries.includes(entry) || !entry.canUndo) {
      return false;
    }
    this.remove(entry, "undone");
    return true;
  }

  /** Undo the last decision that can be undone and return it, or null. */
  undoLast() {
    const last = this.entries.findLast((entry) => entry.canUndo) ?? null;
    if (last !== null) {
      this.undo(last);
    }
    return last;
  }

  /**
   * Remove users from a decision, because another one was made about them.
   *
   * @param {PendingDecision} entry
   * @param {string[]} usernames
   */
  removeUsers(entry, usernames) {
    const gone = new Set(usernames.map((name) => name.toLowerCase()));
    entry.usernames = entry.usernames.filter((name) => !gone.has(name.toLowerCase()));
    if (entry.usernames.length === 0) {
      this.remove(entry, "undone");
    } else {
      this.changed("changed", entry);
    }
  }

  /**
   * Mark a decision whose answer was lost as carried out for a user: an event has shown it.
   *
   * @param {PendingDecision} entry
   * @param {string} username
   */
  confirm(entry, username) {
    entry.usernames = entry.usernames.filter((name) => name.toLowerCase() !== username.toLowerCase());
    this.emit("sent", entry, [{ success: true, message: "", username, status: OUTCOMES[entry.decision] }]);
    if (entry.usernames.length === 0) {
      this.remove(entry, "changed");
    } else {
      this.changed("changed", entry);
    }
  }

  /**
   * Remove a refused decision: its refusals were read.
   *
   * @param {PendingDecision} entry
   */
  dismiss(entry) {
    this.remove(entry, "changed");
  }

  /** Remove everything, for privacy: the operator has logged out. */
  clear() {
    this.operator = null;
    this.changed("changed", null, []);
  }

  /** Send everything now, and wait for the answers; returns whether nothing is left to be sent. */
  async flush() {
    this.send(this.entries.filter((entry) => entry.canUndo));
    await this.queue;
    return !this.entries.some(({ state }) => state !== "refused");
  }

  tick() {
    const due = this.entries.filter(({ canUndo, dueAt }) => canUndo && dueAt <= Date.now());
    if (due.length) {
      this.send(due);
    }
    if (this.entries.length) {
      this.clock.value += 1;
    }
  }

  /** Send at once what is to be sent again: the network is back. */
  resend() {
    const unsent = this.entries.filter(({ state, dueAt }) => state === "unsent" && Number.isFinite(dueAt));
    unsent.forEach((entry) => {
      entry.failures = 0;
    });
    this.send(unsent);
  }

  /**
   * Send decisions, alike ones in one request, one request after the other.
   *
   * @param {PendingDecision[]} entries
   */
  send(entries) {
    entries.forEach((entry) => {
      entry.state = "sending";
      this.changed("sending", entry);
    });
    for (const alike of groupByKind(entries)) {
      this.queue = this.queue.then(() => this.deliver(alike));
    }
  }

  /** @param {PendingDecision[]} entries */
  async deliver(entries) {
    entries.forEach((entry) => {
      entry.isUnderWay = true;
    });
    /** @type {Map<string, DecisionOutcome>} */
    const outcomes = new Map();
    let refusal = null;
    const usernames = entries.flatMap((entry) => entry.usernames);
    for (let start = 0; start < usernames.length && refusal === null; start += MAX_PER_REQUEST) {
      const names = usernames.slice(start, start + MAX_PER_REQUEST);
      try {
        const results = await this.post(entries[0], names);
        results.forEach((result, index) => outcomes.set(names[index], result));
      } catch (error) {
        if (!(error instanceof Refusal)) {
          throw error;
        }
        refusal = error;
      }
    }
    entries.forEach((entry) => this.applyOutcomes(entry, outcomes, refusal));
  }

  /**
   * @param {PendingDecision} entry
   * @param {string[]} usernames
   * @returns {Promise<DecisionOutcome[]>}
   */
  async post({ decision, body }, usernames) {
    // keepalive: the request goes on when the page is left meanwhile
    const reply = await this.api.post(`admin/user/${decision}`, { usernames, ...body }, { keepalive: true });
    return "results" in reply ? reply.results : [];
  }

  /**
   * @param {PendingDecision} entry
   * @param {Map<string, DecisionOutcome>} outcomes by name
   * @param {Refusal | null} refusal of the request
   */
  applyOutcomes(entry, outcomes, refusal) {
    const isDone = (/** @type {DecisionOutcome} */ outcome) =>
      outcome.success || (entry.isUnsure && hadArrived(outcome, entry));
    /** @type {string[]} */
    const rest = [];
    /** @type {DecisionOutcome[]} */
    const final = [];
    for (const name of entry.usernames) {
      const outcome = outcomes.get(name);
      if (outcome === undefined || TEMPORARY.includes(outcome.code ?? "")) {
        rest.push(name);
      } else {
        final.push(outcome);
      }
    }
    const done = final.filter(isDone);
    const refusals = final.filter((outcome) => !isDone(outcome));
    if (done.length) {
      this.emit("sent", entry, done);
    }
    if (refusals.length) {
      const refused = entry.refusedPart(refusals);
      this.changed("refused", refused, [...this.entries, refused]);
    }
    if (rest.length) {
      entry.usernames = rest;
      entry.isUnsure ||= refusal !== null && (refusal.status === 0 || refusal.status >= 500);
      const isRetried = refusal === null || refusal.status >= 500 || TEMPORARY.includes(refusal.code);
      const message = refusal?.message ?? outcomes.get(rest[0])?.message ?? "";
      this.hold(entry, message, isRetried, refusal?.retryAfter);
    } else {
      this.remove(entry, "changed");
    }
  }

  /**
   * @param {PendingDecision} entry
   * @param {Parameters<PendingDecision["fail"]>} why
   */
  hold(entry, ...why) {
    entry.fail(...why);
    this.changed("unsent", entry);
  }

  /**
   * @param {PendingDecision} entry
   * @param {Change} change
   */
  remove(entry, change) {
    this.changed(
      change,
      entry,
      this.entries.filter((other) => other !== entry),
    );
  }

  /**
   * @param {Change} change
   * @param {PendingDecision | null} entry that was changed
   * @param {PendingDecision[]} entries all of them, from now on
   */
  changed(change, entry, entries = this.entries) {
    batch(() => {
      this.#index = null;
      this.#entries.value = entries;
      this.#entries.notify();
      this.persist();
    });
    this.emit(change, entry, []);
  }

  /** Store what is pending in the tab: browsers discard pages from memory without a warning. */
  persist() {
    const entries = this.entries.filter((entry) => entry.canUndo).map(({ stored }) => stored);
    store(STORAGE_KEY, entries.length ? { operator: this.operator, entries } : null, "sessionStorage");
  }

  /** Send everything at once: the page is gone before it could send one after the other or receive the answers. */
  sendOnLeave() {
    if (this.api.session?.current === null || !navigator.onLine) {
      return; // they stay in the tab, and are restored with it
    }
    const unsent = this.entries.filter(({ state, isUnderWay }) => state !== "refused" && !isUnderWay);
    for (const alike of groupByKind(unsent)) {
      const usernames = alike.flatMap((entry) => entry.usernames);
      for (let start = 0; start < usernames.length; start += MAX_PER_REQUEST) {
        this.post(alike[0], usernames.slice(start, start + MAX_PER_REQUEST)).catch(() => {});
      }
    }
    this.changed("changed", null, []);
  }
}

/**
 * Return whether a refusal shows that the request before, whose answer was lost, was carried out.
 *
 * @param {DecisionOutcome} refusal
 * @param {PendingDecision} entry
 */
function hadArrived({ code, status }, { decision }) {
  return decision === "delete" ? code === "user_not_found" : code === "wrong_status" && status === OUTCOMES[decision];
}

/** @param {PendingDecision[]} entries */
function groupByKind(entries) {
  /** @type {Map<string, PendingDecision[]>} */
  const groups = new Map();
  for (const entry of entries) {
    groups.set(entry.kind, [...(groups.get(entry.kind) ?? []), entry]);
  }
  return [...groups.values()];
}
