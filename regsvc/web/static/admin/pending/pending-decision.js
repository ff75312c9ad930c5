// One decision that has been made but not sent yet.

const UNDO_TIME = 10_000; // milliseconds
const RETRY_DELAYS = [2, 4, 8, 15, 30, 60]; // seconds, after the first failure, the second…

/**
 * @typedef {object} DecisionFields what is undefined is not sent
 * @property {PendingName} decision
 * @property {string[]} usernames
 * @property {Record<string, Status>} [shown] by name, the statuses that the operator saw
 * @property {string} [reason]
 * @property {boolean} [silent]
 * @property {number | null} [expiresAt]
 * @property {boolean} [mayReapply]
 * @property {PasswordChoice} [passwordChoice] which one counts of those who registered anew in the game
 * @property {number | null} [until] when the membership ends; null: never
 * @property {string} [for] how long the membership lasts, "30 days", in place of `until`
 * @property {boolean} [decline] whether it is declined that users stay, who asked for it
 * @property {boolean} [isUnsure] whether it may have arrived although there was no answer
 */

/**
 * "waiting": it can be undone; "sending": queued or under way; "unsent": it could not be sent (`message` says why) and
 * is sent again at `dueAt`, or on request; "refused": the API refused it for `refusals`.
 *
 * @typedef {"waiting" | "sending" | "unsent" | "refused"} PendingState
 */

export class PendingDecision {
  /** @param {DecisionFields} fields */
  constructor({ decision, usernames, shown = {}, isUnsure = false, ...details }) {
    this.decision = decision;
    this.usernames = usernames;
    this.shown = shown;
    /** The other fields of the request, as they were given. */
    this.details = details;
    /** @type {PendingState} */
    this.state = "waiting";
    this.dueAt = Date.now() + UNDO_TIME;
    this.failures = 0; // in a row
    this.message = "";
    /** @type {DecisionOutcome[]} */
    this.refusals = [];
    this.isUnderWay = false;
    this.isUnsure = isUnsure;
  }

  /**
   * Return the part of the decision that the API refused.
   *
   * @param {DecisionOutcome[]} refusals
   */
  refusedPart(refusals) {
    const refused = new PendingDecision({ ...this.stored, usernames: refusals.map(({ username }) => username) });
    refused.state = "refused";
    refused.refusals = refusals;
    return refused;
  }

  /** Wait until it is sent, so that it can be undone. */
  wait() {
    this.state = "waiting";
    this.dueAt = Date.now() + UNDO_TIME;
    this.failures = 0;
  }

  /**
   * Note that it could not be sent.
   *
   * @param {string} message
   * @param {boolean} isRetried whether it is sent again without being asked to
   * @param {number | null} delay seconds, null: longer after each failure
   */
  fail(message, isRetried, delay = null) {
    const usual = RETRY_DELAYS[Math.min(this.failures, RETRY_DELAYS.length - 1)];
    this.state = "unsent";
    this.isUnderWay = false;
    this.message = message;
    this.failures += 1;
    this.dueAt = isRetried ? Date.now() + (delay ?? usual) * 1000 : Number.POSITIVE_INFINITY;
  }

  get canUndo() {
    return this.state === "waiting" || this.state === "unsent";
  }

  get secondsLeft() {
    return Math.max(0, Math.ceil((this.dueAt - Date.now()) / 1000));
  }

  /** The number of applicants whom the decision takes out of the review queue. */
  get reviewCount() {
    const { shown, state, usernames } = this;
    return state === "refused" ? 0 : usernames.filter((username) => shown[username] === "pending").length;
  }

  /** The fields of a request, beside its usernames. */
  get body() {
    const given = Object.entries(this.details).filter(([, value]) => value || value === null);
    return { ...(this.decision === "reopen" ? { silent: false } : {}), ...Object.fromEntries(given) };
  }

  /** Equal for decisions that can share a request; what must not be done twice is asked for again as it was. */
  get kind() {
    return JSON.stringify([this.decision, this.body, this.decision === "membership" && this.usernames]);
  }

  /** What is stored in the tab. */
  get stored() {
    const { decision, usernames, shown, isUnsure, details } = this;
    return { decision, usernames, shown, isUnsure, ...details };
  }
}
