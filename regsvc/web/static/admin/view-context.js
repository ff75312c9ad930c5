// What a view of the operators' page works with. Each visit to a view has one of its own: what is registered through it
// is dropped when the view is left.

import { askDecision } from "./decisions/decision-dialog.js";

export class Office {
  /** `desk`: what lasts as long as the page, `{api, config, operator, pending, keys, live, go, redraw}`. */
  constructor(desk, view) {
    this.desk = desk;
    this.view = view;
    this.isOver = false;
    this.listeners = [];
    this.watchers = [];
    this.leaving = [];
  }

  /** The API with the operator's token; what it refuses comes as a Refusal. */
  get api() {
    return this.desk.api;
  }

  /** The `config` of GET /api/config. */
  get config() {
    return this.desk.config;
  }

  /** The name of who is logged in. */
  get operator() {
    return this.desk.operator;
  }

  /** Where a view is, for the `href` of a link; values of `query` that are null or "" are left out. */
  address(viewId, query = {}) {
    return addressOf(viewId, query);
  }

  /** Go to a view, as a link to it does. */
  go(viewId, query = {}) {
    location.hash = addressOf(viewId, query);
  }

  /** Write down in the address what the view shows by now (a filter), without drawing it anew. */
  note(query) {
    history.replaceState(null, "", addressOf(this.view.id, query));
  }

  /** Draw this view anew, as it is in the address. */
  redraw() {
    if (!this.isOver) {
      this.desk.redraw();
    }
  }

  /**
   * Decide: in ten seconds it is sent, until then it can be taken back. `decided`: `{decision, usernames, reason,
   * silent, expiresAt}`; what is not said is not sent.
   */
  decide(decided) {
    return this.desk.pending.add(decided);
  }

  /** Ask why, and decide. Comes back with the decision, or with null when it was left. `options`: of `askDecision`. */
  async askAndDecide(decision, usernames, options = {}) {
    const answer = await askDecision({ decision, usernames, ...options });
    return answer === null ? null : this.decide({ decision, usernames, ...answer });
  }

  /** The decision about a person that waits or is under way: `{decision, reason, state, …}`, or null. */
  waiting(username) {
    return this.desk.pending.find(username);
  }

  /** Listen to events: `names` of /events, or "missed" (some may have been: ask anew). `listener(data, name)`. */
  onEvent(names, listener) {
    this.listeners.push({ names, listener });
  }

  /** Listen to what becomes of decisions: "added", "undone", "unsent", "sent", "refused". `listener(what, entry, facts)`. */
  onDecision(listener) {
    this.watchers.push(listener);
  }

  /** Keys of this view, as `Keys.add` has them. */
  keys(bindings) {
    this.leaving.push(this.desk.keys.add(this.view.title, bindings));
  }

  /** Call it when the view is left. */
  onLeave(listener) {
    this.leaving.push(listener);
  }

  // --- For the desk ---

  hear(name, data) {
    this.listeners.filter(({ names }) => names.includes(name)).forEach(({ listener }) => listener(data, name));
  }

  watch(what, entry, facts) {
    this.watchers.forEach((listener) => listener(what, entry, facts));
  }

  end() {
    this.isOver = true;
    this.listeners = [];
    this.watchers = [];
    this.leaving.splice(0).forEach((leave) => leave());
  }
}

/** "#users?status=banned" */
export function addressOf(viewId, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `#${viewId}?${new URLSearchParams(given)}` : `#${viewId}`;
}

/** `{id, query}` of an address such as "#users?status=banned". */
export function readAddress(hash) {
  const [id, query = ""] = hash.slice(1).split(/\?(.*)/s, 2);
  return { id, query: Object.fromEntries(new URLSearchParams(query)) };
}
