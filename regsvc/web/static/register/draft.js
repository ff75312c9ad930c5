// What has been entered so far. It is kept for a day in this browser, so that it outlives a reload, the visit to the
// chat platform and a closed tab; the password is kept in memory only.

import { LANGUAGE_SWITCH } from "../shared/i18n.js";

const KEY = "companion.registration";
const LIFETIME = 24 * 60 * 60 * 1000; // milliseconds
const SECRET = "password";
const NOT_SENT = /^(keptAt|step|code)/;

/**
 * Keep nothing but the token of a rejected application, with which the registration's page fills itself in.
 *
 * @param {string} reapplyToken
 */
export function beginAgain(reapplyToken) {
  const draft = new Draft();
  draft.clear();
  draft.update({ reapplyToken });
}

export class Draft {
  constructor() {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    /** @type {Record<string, any>} */
    this.values = stored.keptAt > Date.now() - LIFETIME ? stored : {};
    /** @type {import("../shared/form.js").Form | null} the form that is shown */
    this.form = null;
    this.isKept = Boolean(this.values.email || this.values.username);
    for (const event of ["pagehide", "visibilitychange", LANGUAGE_SWITCH]) {
      addEventListener(event, () => this.form !== null && this.update(this.form.values));
    }
  }

  /** @param {string} name */
  get(name) {
    return this.values[name];
  }

  /** @param {Record<string, unknown>} values */
  update(values) {
    Object.assign(this.values, values, { keptAt: Date.now() });
    if (SECRET in values) {
      this.values.hadPassword = Boolean(values[SECRET]);
    }
    const { [SECRET]: _secret, ...others } = this.values;
    localStorage.setItem(KEY, JSON.stringify(others));
  }

  /** Whether the address has been proven by a code. */
  get isProven() {
    return Boolean(this.values.proof) && this.values.proofFor === this.values.email;
  }

  /** Whether a password was typed before a reload, which only its owner can type again. */
  get isPasswordLost() {
    return Boolean(this.values.hadPassword) && !this.values[SECRET];
  }

  /** Everything that a registration is made of, as one text, to tell whether it has changed. */
  get entered() {
    return JSON.stringify(this.values, (name, value) => (NOT_SENT.test(name) ? undefined : value));
  }

  clear() {
    this.form = null;
    this.values = {};
    this.isKept = false;
    localStorage.removeItem(KEY);
  }
}
