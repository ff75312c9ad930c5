// The access token of the signed-in user. It is kept in the tab's sessionStorage: it outlives a reload (phones discard
// pages from memory) but not the tab, and other tabs do not share it. Players who choose to stay logged in have it in
// localStorage. A script that could read it there could use it from memory just as well; the Content-Security-Policy
// keeps such scripts out.

export class Session {
  /** @param {"user" | "admin"} kind each page uses one */
  constructor(kind) {
    this.key = `companion.${kind}`;
  }

  /**
   * The token and its user, or null. Only the API knows whether it is still valid: phones' clocks may be wrong.
   *
   * @returns {{ token: string, username: string, isAdmin: boolean } | null}
   */
  get current() {
    return JSON.parse(sessionStorage.getItem(this.key) ?? localStorage.getItem(this.key) ?? "null");
  }

  /**
   * @param {{ token: string, username: string, isAdmin: boolean }} reply of a login
   * @param {boolean} stays in all tabs, also after the browser was closed; never for operators
   */
  begin({ token, username, isAdmin }, stays = false) {
    this.end();
    (stays && !isAdmin ? localStorage : sessionStorage).setItem(this.key, JSON.stringify({ token, username, isAdmin }));
  }

  end() {
    sessionStorage.removeItem(this.key);
    localStorage.removeItem(this.key);
  }
}
