// The access token of whoever is logged in. It is kept in the tab's sessionStorage: it outlives a reload (phones throw
// pages out of memory) but not the tab, and other tabs do not share it. A script that could read it there could use it
// from memory just as well; that no such script runs is the policy's matter (Content-Security-Policy).

/** `kind`: "user" or "admin"; each page uses one. */
export class Session {
  constructor(kind) {
    this.key = `companion.${kind}`;
  }

  /** `{token, username, isAdmin}`, or null. Whether it is still good the API tells: phones' clocks may be wrong. */
  get current() {
    return JSON.parse(sessionStorage.getItem(this.key) ?? "null");
  }

  /** `reply`: of a login. */
  begin({ token, username, isAdmin }) {
    sessionStorage.setItem(this.key, JSON.stringify({ token, username, isAdmin }));
  }

  end() {
    sessionStorage.removeItem(this.key);
  }
}
