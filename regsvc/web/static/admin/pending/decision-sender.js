// Sends pending decisions once they can no longer be undone. None is lost silently: they are sent when the page is
// left, and again and again if the server cannot be reached.

import { Refusal } from "../../shared/api.js";

/** @typedef {import("./pending-decision.js").PendingDecision} PendingDecision */

const TICK = 1000; // milliseconds
const MAX_PER_REQUEST = 50; // names; the API takes 100, but more of them take longer than a request may

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

export class DecisionSender {
  /**
   * @param {import("../../shared/api.js").Api} api
   * @param {import("./pending-decisions.js").PendingDecisions} pending
   */
  constructor(api, pending) {
    this.api = api;
    this.pending = pending;
    this.queue = Promise.resolve();
    setInterval(() => this.tick(), TICK);
    addEventListener("online", () => this.resend());
    addEventListener("pagehide", () => this.sendOnLeave());
    addEventListener("beforeunload", (event) => {
      if (pending.entries.some(({ state }) => state === "unsent")) {
        event.preventDefault(); // the browser asks whether to leave
      }
    });
  }

  /** Send everything now, and wait for the answers; returns whether nothing is left to be sent. */
  async flush() {
    this.send(this.pending.entries.filter((entry) => entry.canUndo));
    await this.queue;
    return !this.pending.entries.some(({ state }) => state !== "refused");
  }

  tick() {
    const due = this.pending.entries.filter(({ canUndo, dueAt }) => canUndo && dueAt <= Date.now());
    if (due.length) {
      this.send(due);
    }
    if (this.pending.entries.length) {
      this.pending.clock.value += 1;
    }
  }

  /** Send at once what is to be sent again: the network is back. */
  resend() {
    const unsent = this.pending.entries.filter(({ state, dueAt }) => state === "unsent" && Number.isFinite(dueAt));
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
      this.pending.changed("sending", entry);
    });
    for (const alike of groupByKind(entries)) {
      this.queue = this.queue.then(() => this.deliver(alike));
    }
  }

  /** @param {PendingDecision[]} entries */
  async deliver(entries) {
    const open = this.findUnanswered(entries);
    if (open !== undefined) {
      entries.forEach((entry) => this.pending.hold(entry, open.message, true));
      return;
    }
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
   * Return the change of memberships that may have arrived, if these are others. It is asked for again first: its
   * attempt ends with the next answer to such a request, and the same time would be added twice.
   *
   * @param {PendingDecision[]} entries
   */
  findUnanswered(entries) {
    const isOpen = (/** @type {PendingDecision} */ { isUnsure, decision, state }) =>
      isUnsure && decision === "membership" && state !== "refused";
    return entries[0].decision === "membership"
      ? this.pending.entries.find((entry) => isOpen(entry) && !entries.includes(entry))
      : undefined;
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
    // who is gone after a deletion without an answer was deleted by it, or in any case as was wanted
    const isGone = entry.isUnsure && entry.decision === "delete" ? "user_not_found" : null;
    const done = final.filter(({ success, code }) => success || code === isGone);
    const refusals = final.filter((outcome) => !done.includes(outcome));
    if (done.length) {
      this.pending.emit("sent", entry, done);
    }
    if (refusals.length) {
      const refused = entry.refusedPart(refusals);
      this.pending.changed("refused", refused, [...this.pending.entries, refused]);
    }
    if (rest.length) {
      entry.usernames = rest;
      entry.isUnsure ||= refusal?.isUnsure === true;
      const isRetried = refusal === null || refusal.status >= 500 || TEMPORARY.includes(refusal.code);
      const message = refusal?.message ?? outcomes.get(rest[0])?.message ?? "";
      this.pending.hold(entry, message, isRetried, refusal?.retryAfter);
    } else {
      this.pending.remove(entry, "changed");
    }
  }

  /** Send everything at once: the page is gone before it could send one after the other or receive the answers. */
  sendOnLeave() {
    if (this.api.session?.current === null || !navigator.onLine) {
      return; // they stay in the tab, and are restored with it
    }
    const unsent = this.pending.entries.filter(({ state, isUnderWay }) => state !== "refused" && !isUnderWay);
    for (const alike of groupByKind(unsent)) {
      const usernames = alike.flatMap((entry) => entry.usernames);
      for (let start = 0; start < usernames.length; start += MAX_PER_REQUEST) {
        this.post(alike[0], usernames.slice(start, start + MAX_PER_REQUEST)).catch(() => {});
      }
    }
    this.pending.changed("changed", null, []);
  }
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
