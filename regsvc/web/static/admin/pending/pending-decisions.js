// Decisions that wait ten seconds before they are sent, so that they can be undone: the state, which is stored in the
// tab and restored when the browser had discarded the page. `decision-sender.js` sends them.

import { batch, Signal } from "../../shared/signal.js";
import { recall, store } from "../browser-storage.js";
import { OUTCOMES } from "../decisions/transitions.js";
import { PendingDecision } from "./pending-decision.js";

const STORAGE_KEY = "waiting";

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

  /** @param {ChangeListener} emit */
  constructor(emit) {
    this.emit = emit;
    /** Changes every second while there are entries: for countdowns. */
    this.clock = new Signal(0);
    /** @type {string | null} */
    this.operator = null;
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
}
