// Keeps the review queue up to date: with events about applicants, and with the decisions made here. It draws nothing.

import { asRefusal } from "../../../shared/api.js";
import { t } from "../../../shared/i18n.js";
import { notice } from "../../../shared/notice.js";
import { APPLICANT_NEWS } from "../../decisions/transitions.js";
import { statusInSentence } from "../../phrases.js";

const ARRIVAL_DELAY = 300; // milliseconds; registrations that come together cause one request

/**
 * @typedef {object} QueueActions
 * @property {(applicant: ListedUser) => unknown} show opens an applicant nobody has clicked on
 * @property {() => unknown} reload loads the queue again
 * @property {() => unknown} loadAhead loads the next page if few applicants are left
 */

export class QueueUpdates {
  /**
   * @param {import("../../view-context.js").ViewContext} context
   * @param {import("./review-queue.js").ReviewQueue} queue
   * @param {QueueActions} actions
   */
  constructor(context, queue, actions) {
    this.context = context;
    this.queue = queue;
    this.applicants = queue.applicants;
    this.actions = actions;
    /** @type {Set<string>} names of users who have registered and are not in the list yet */
    this.arrived = new Set();
  }

  // --- Decisions ---

  /** @type {import("../../pending/pending-decisions.js").ChangeListener} */
  handleDecision(change, entry, results) {
    if (entry === null) {
      return;
    }
    if (change === "added") {
      this.openNext(entry.usernames);
    } else if (change === "sent") {
      this.removeDecided(results);
    } else if (change === "refused") {
      this.removeDecided(entry.refusals);
      this.reopen(entry.usernames);
    } else if (change === "undone") {
      this.reopen(entry.usernames);
    }
  }

  /**
   * Go on to the next applicant after a decision about these users.
   *
   * @param {string[]} usernames
   */
  openNext(usernames) {
    if (this.queue.deselect(usernames)) {
      const next = this.queue.nextAfterDecision();
      if (next === null) {
        this.queue.current = null;
      } else {
        this.actions.show(next);
      }
    }
    this.actions.loadAhead();
  }

  /**
   * Open the first of these users again: a decision about them was undone or refused.
   *
   * @param {string[]} usernames
   */
  reopen(usernames) {
    const { shown } = this.queue;
    if (usernames.length > 1) {
      this.queue.reselect(usernames);
    }
    const found = usernames.map((username) => this.applicants.find(username));
    const first = found.find((applicant) => applicant !== null && shown.includes(applicant));
    if (first) {
      this.actions.show(first);
    }
  }

  /**
   * Remove the users who are no longer pending, or no longer exist.
   *
   * @param {DecisionOutcome[]} outcomes
   */
  removeDecided(outcomes) {
    for (const { username, status = "pending", code } of outcomes) {
      if (status !== "pending" || code === "user_not_found") {
        this.applicants.remove(username);
      }
    }
  }

  // --- Events ---

  /**
   * @param {{ username: string, status: string, by: string }} event
   * @param {string} name
   */
  handleEvent({ username, status, by }, name) {
    if (this.context.pendingFor(username)?.state === "sending") {
      return; // our own decision, whose answer is on its way
    }
    if (status !== "pending") {
      const values = { operator: by, name: username, status: statusInSentence(status) };
      this.remove(username, t("decided_elsewhere", values));
    } else if (name === "user_registered" && this.applicants.find(username) === null) {
      this.addArrival(username);
    } else {
      this.actions.reload(); // the user is back in the queue, has registered again, was asked, or says other things
      if (name in APPLICANT_NEWS && this.queue.current?.username === username) {
        notice.show(t(APPLICANT_NEWS[name], { name: username })); // it may have been read already
      }
    }
  }

  /**
   * @param {string} username
   * @param {string} message
   */
  remove(username, message) {
    if (this.queue.remove(username)) {
      notice.show(message);
    }
  }

  /** @param {string} username */
  addArrival(username) {
    if (this.arrived.size === 0) {
      setTimeout(() => this.loadArrived().catch((error) => notice.showRefusal(asRefusal(error))), ARRIVAL_DELAY);
    }
    this.arrived.add(username);
  }

  async loadArrived() {
    const names = [...this.arrived];
    this.arrived.clear();
    if (this.context.isOver) {
      return;
    }
    if (await this.applicants.loadNew(names)) {
      this.queue.openFirst();
    } else {
      await this.actions.reload();
    }
  }
}
