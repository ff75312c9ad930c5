// What a view of the admin page works with. Every time a view is shown it gets its own context: whatever is registered
// through it ends when the view is left, and what a view registers after that, because it was still loading, never
// begins.

import { effect } from "../shared/signal.js";
import { hashFor } from "./hash.js";
import { loadDialogs } from "./later.js";

/** @typedef {import("./decisions/decision-dialog.js").DialogOptions} DialogOptions */
/** @typedef {import("./pending/pending-decisions.js").ChangeListener} ChangeListener */

const SKIP_LINK = "#main";

export class ViewContext {
  /** @type {Array<{ names: string[], listener: (data: any, name: string) => void }>} */
  #eventListeners = [];
  /** @type {ChangeListener[]} */
  #decisionListeners = [];
  /** @type {Array<() => void>} */
  #cleanups = [];

  /**
   * @param {Shell} shell
   * @param {View} view
   */
  constructor(shell, view) {
    this.shell = shell;
    this.view = view;
    this.isOver = false;
    this.hash = location.hash;
  }

  /** The API with the operator's access token. */
  get api() {
    return this.shell.api;
  }

  /** What is loaded once the first view is shown; null until then. */
  get rest() {
    return this.shell.rest;
  }

  /** Return what is loaded once the first view is shown. From then on events are received. */
  loadRest() {
    return this.shell.loadRest();
  }

  /** The `config` of GET /api/config. */
  get config() {
    return this.shell.config;
  }

  /**
   * Return the `href` of a view; values of `query` that are null or "" are left out.
   *
   * @param {string} viewId
   * @param {Query} query
   */
  hashFor(viewId, query = {}) {
    return hashFor(viewId, query);
  }

  /**
   * Go to a view, as a link to it does.
   *
   * @param {string} viewId
   * @param {Query} query
   */
  go(viewId, query = {}) {
    location.hash = hashFor(viewId, query);
  }

  /**
   * Put what the view shows now (a filter) into the address, without rendering it again, unless the operator has just
   * gone to another one. `state` is what going back to it restores: `history.state`.
   *
   * @param {Query} query
   * @param {unknown} state
   */
  updateHash(query, state = null) {
    if (location.hash === this.hash || location.hash === SKIP_LINK) {
      history.replaceState(state, "", hashFor(this.view.id, query));
      this.hash = location.hash;
    }
  }

  /**
   * Make a decision: it is sent in ten seconds and can be undone until then.
   *
   * @param {import("./pending/pending-decision.js").DecisionFields} fields
   */
  decide(fields) {
    return this.shell.pending.add(fields);
  }

  /**
   * Ask for the details of a decision and make it. Returns the pending decision, or null if the dialog was cancelled.
   *
   * @param {DecisionName} decision
   * @param {string[]} usernames
   * @param {Partial<DialogOptions> & { shown?: Record<string, Status> }} options of the dialog; `shown`: the users'
   *   statuses, as they are shown
   */
  async askAndDecide(decision, usernames, { shown = {}, ...options } = {}) {
    const dialogs = await loadDialogs();
    const answer = dialogs && !this.isOver ? await dialogs.askDecision({ decision, usernames, ...options }) : null;
    return answer === null ? null : this.decide({ decision, usernames, shown, ...answer });
  }

  /**
   * Return the decision about a user that waits or is under way, or null. Effects follow it.
   *
   * @param {string} username
   */
  pendingFor(username) {
    return this.shell.pending.find(username);
  }

  /**
   * Listen to events of /events, and to "missed": some may have been, so load everything again.
   *
   * @param {string[]} names
   * @param {(data: any, name: string) => void} listener
   */
  onEvent(names, listener) {
    if (!this.isOver) {
      this.#eventListeners.push({ names, listener });
    }
  }

  /**
   * Listen to changes of pending decisions.
   *
   * @param {ChangeListener} listener
   */
  onDecision(listener) {
    if (!this.isOver) {
      this.#decisionListeners.push(listener);
    }
  }

  /**
   * Run `action` now and whenever a signal that it reads changes.
   *
   * @param {() => void} action
   */
  effect(action) {
    if (!this.isOver) {
      this.onLeave(effect(action));
    }
  }

  /** @param {import("./keyboard.js").Bindings} bindings */
  async addKeys(bindings) {
    const { keyboard } = await this.loadRest();
    if (!this.isOver) {
      this.onLeave(keyboard.add(this.view.title, bindings));
    }
  }

  /** @param {() => void} cleanup run at once if the view has been left already */
  onLeave(cleanup) {
    if (this.isOver) {
      cleanup();
    } else {
      this.#cleanups.push(cleanup);
    }
  }

  // --- For the page ---

  /**
   * @param {string} name
   * @param {any} data
   */
  handleEvent(name, data) {
    this.#eventListeners.filter(({ names }) => names.includes(name)).forEach(({ listener }) => listener(data, name));
  }

  /** @type {ChangeListener} */
  handleDecision(change, entry, results) {
    this.#decisionListeners.forEach((listener) => listener(change, entry, results));
  }

  end() {
    this.isOver = true;
    this.#eventListeners = [];
    this.#decisionListeners = [];
    this.#cleanups.splice(0).forEach((cleanup) => cleanup());
  }
}
