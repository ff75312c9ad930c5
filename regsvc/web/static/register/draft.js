// What has been entered so far. It outlives a reload and the visit to the chat platform, in this tab only; the password
// is kept in memory only.

import { LANGUAGE_SWITCH } from "../shared/i18n.js";

const KEY = "companion.registration";
const LIFETIME = 60 * 60 * 1000; // milliseconds; a chat link lives as long
const SECRET = "password";

export class Draft {
  constructor() {
    const stored = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    /** @type {Record<string, any>} */
    this.values = stored.keptAt > Date.now() - LIFETIME ? stored : {};
    /** @type {import("../shared/form.js").Form | null} the form that is shown */
    this.form = null;
    for (const event of ["pagehide", LANGUAGE_SWITCH]) {
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
    sessionStorage.setItem(KEY, JSON.stringify(others));
  }

  /** Whether a password was typed before a reload, which only its owner can type again. */
  get isPasswordLost() {
    return Boolean(this.values.hadPassword) && !this.values[SECRET];
  }

  clear() {
    this.form = null;
    this.values = {};
    sessionStorage.removeItem(KEY);
  }
}
