// What events and sent decisions mean for the page as a whole: pending decisions that no longer apply, the queue in
// figures, warnings. It draws nothing.

import { asRefusal } from "../shared/api.js";
import { hasText, t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { Signal } from "../shared/signal.js";
import { APPLICANT_NEWS, OUTCOMES } from "./decisions/transitions.js";
import { listNames, statusInSentence } from "./phrases.js";

const COUNT_DELAY = 500; // milliseconds; many events at once cause one request
const VERY_MANY = 100_000; // more are not counted
const SUPERSEDED = ["approve", "reject"]; // decisions that no longer apply when another operator has decided

export class LiveUpdates {
  /**
   * @param {import("../shared/api.js").Api} api
   * @param {import("./pending/pending-decisions.js").PendingDecisions} pending
   */
  constructor(api, pending) {
    this.api = api;
    this.pending = pending;
    this.operator = ""; // empty while nobody is logged in
    /** @type {Signal<GetReply<"admin/overview"> | null>} of the server; null before it was loaded */
    this.overview = new Signal(null);
    this.isCounting = false;
    /** @type {Set<string>} applicants who were decided about here, until they wait again */
    this.decided = new Set();
  }

  /** The number of applicants who wait for the team, without those whom pending decisions are about. */
  get waiting() {
    const count = this.overview.value === null ? 0 : (this.overview.value.waiting ?? VERY_MANY);
    return Math.max(0, count - this.pending.reviewCount);
  }

  /** Update the figures of the queue, soon. */
  countSoon() {
    if (!this.isCounting) {
      this.isCounting = true;
      setTimeout(() => this.count(), COUNT_DELAY);
    }
  }

  async count() {
    this.isCounting = false;
    if (this.operator === "") {
      return;
    }
    try {
      this.overview.value = await this.api.get("admin/overview");
    } catch (error) {
      asRefusal(error); // it is counted again after the next event
    }
  }

  /**
   * Drop the pending approval or rejection of a user about whom another operator has decided, or whose answers are no
   * longer those that the operator has read.
   *
   * @param {string} name of the event
   * @param {{ username: string, status: string, by: string }} event
   */
  dropSuperseded(name, { username, status, by }) {
    const entry = this.pending.find(username);
    const isSending = entry?.state === "sending";
    const news = APPLICANT_NEWS[name];
    if (status === "pending" && news === undefined) {
      this.decided.delete(username);
    }
    // an event that was read before the decision was carried out may arrive after it
    if (news && (isSending || status !== "pending" || this.decided.has(username))) {
      notice.show(t(`late_${news}`, { name: username }), "bad");
    }
    if (entry === null) {
      return;
    }
    if (entry.state === "unsent" && entry.isUnsure && by === this.operator && status === OUTCOMES[entry.decision]) {
      this.pending.confirm(entry, username); // it had arrived, only the answer was lost
      return;
    }
    if (isSending || !SUPERSEDED.includes(entry.decision)) {
      return;
    }
    if (status !== "pending") {
      this.pending.removeUsers(entry, [username]);
      notice.show(t("faster", { operator: by, name: username, status: statusInSentence(status) }), "bad");
    } else if (news) {
      this.pending.removeUsers(entry, [username]);
      notice.show(t(`unsent_${news}`, { name: username }), "bad");
    }
  }

  /**
   * Note that a decision was carried out.
   *
   * @param {import("./pending/pending-decision.js").PendingDecision} entry
   * @param {DecisionOutcome[]} results
   */
  noteSent(entry, results) {
    const done = results.filter(({ username }) => entry.shown[username] === "pending");
    done.forEach(({ username }) => this.decided.add(username));
    const overview = this.overview.value;
    if (overview !== null && overview.waiting !== null) {
      this.overview.value = { ...overview, waiting: overview.waiting - done.length }; // until they are counted again
    }
    showWarnings(results);
    this.countSoon();
  }
}

/**
 * Name the users whose decision was carried out, but not completely yet.
 *
 * @param {DecisionOutcome[]} results
 */
function showWarnings(results) {
  /** @type {Map<string, string[]>} names by warning */
  const warned = new Map();
  for (const { username, warnings = [] } of results) {
    for (const code of warnings) {
      warned.set(code, [...(warned.get(code) ?? []), username]);
    }
  }
  const lines = [...warned].map(([code, names]) => {
    const text = hasText(`warning_${code}`) ? t(`warning_${code}`) : code;
    return `${listNames(names)}: ${text}`;
  });
  if (lines.length) {
    notice.show(lines.join("\n"), "bad");
  }
}
