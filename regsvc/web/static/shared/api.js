// The API as a page uses it. Every call comes back with the reply, or throws a Refusal that can be shown as it is.

import { language, word } from "./i18n.js";

const LONGEST_WAIT = 30_000; // milliseconds; a phone in a tunnel never hears that the connection is gone

/** Why something was not done. `message` is for people; `field` names what is to be changed, if there is such a thing. */
export class Refusal extends Error {
  /** `body`: what the API said; `{}` if it was not the API that answered. */
  constructor(status, body, retryAfter = null) {
    super(body.message ?? word("unreachable"));
    this.status = status; // 0: nobody answered
    this.code = body.code ?? "unreachable";
    this.field = body.field ?? null;
    this.facts = body;
    this.retryAfter = retryAfter; // seconds, or null
  }

  /** Whether the access token that was sent is no longer good. */
  get isLoggedOut() {
    return this.code === "unauthorized";
  }
}

export class Api {
  /** `session`: whose token is sent, or null; `onLoggedOut()` is told when it turns out to be no longer good. */
  constructor(session = null, onLoggedOut = () => {}) {
    this.session = session;
    this.onLoggedOut = onLoggedOut;
  }

  /** `path`: "user/status"; values in `query` that are null or "" are left out. */
  get(path, query = {}, options = {}) {
    const given = Object.entries({ ...query, language }).filter(([, value]) => value !== null && value !== "");
    return this.ask(`api/${path}?${new URLSearchParams(given)}`, options);
  }

  post(path, body = {}) {
    return this.ask(`api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...body, language }),
    });
  }

  async ask(address, { headers = {}, ...options }) {
    const token = this.session?.current?.token;
    let response, body;
    try {
      const signal = AbortSignal.timeout(LONGEST_WAIT);
      response = await fetch(address, { signal, headers: { ...headers, ...bearing(token) }, ...options });
      body = await response.json();
    } catch {
      body = {}; // no network, or a proxy's own page
    }
    if (response?.ok && body.success) {
      return body;
    }
    throw this.refusal(response, body, token);
  }

  /** The body of a reply that goes on for as long as `signal` lets it. Throws what `fetch` throws, too. */
  async stream(address, { signal, headers = {} }) {
    const token = this.session?.current?.token;
    const response = await fetch(address, { signal, headers: { ...headers, ...bearing(token) } });
    if (response.ok) {
      return response.body;
    }
    throw this.refusal(response, await response.json().catch(() => ({})), token);
  }

  refusal(response, body, token) {
    const refusal = new Refusal(response?.status ?? 0, body, Number(response?.headers.get("Retry-After")) || null);
    if (token && refusal.isLoggedOut) {
      this.session.end();
      this.onLoggedOut(refusal);
    }
    return refusal;
  }
}

function bearing(token) {
  return token ? { Authorization: `Bearer ${token}` } : {};
}
