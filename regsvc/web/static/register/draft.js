// What has been entered so far. It outlives a reload and the way to the chat platform, in this tab alone; the password
// is kept in memory only.

import { LANGUAGE_SWITCH } from "../shared/i18n.js";

const KEY = "companion.registration";
const KEPT = 60 * 60 * 1000; // milliseconds; a chat link lives as long
const SECRET = "password";

export class Draft {
  constructor() {
    const stored = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    this.values = stored.keptAt > Date.now() - KEPT ? stored : {};
    this.form = null;
    for (const event of ["pagehide", LANGUAGE_SWITCH]) {
      addEventListener(event, () => this.form && this.keep(this.form.values));
    }
  }

  get(name) {
    return this.values[name];
  }

  keep(values) {
    Object.assign(this.values, values, { keptAt: Date.now() });
    const { [SECRET]: secret, repeat, ...others } = this.values;
    sessionStorage.setItem(KEY, JSON.stringify(others));
  }

  clear() {
    this.form = null;
    this.values = {};
    sessionStorage.removeItem(KEY);
  }
}
