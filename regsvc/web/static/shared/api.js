// A client of the API. Every call returns the reply, or throws a Refusal whose message can be shown as it is.
//
// A POST request that got no answer may have been carried out. It belongs to an attempt, whose key is kept in the tab
// until there is an answer: whatever is sent to the same path next has the same key, and if that asks for the same, the
// server answers what it has answered before. Nothing of what was typed is stored.

import { language, t } from "./i18n.js";

export const KEY_HEADER = "Idempotency-Key";
export const ATTEMPT = "companion.attempt/"; // followed by a path: where the key of an unanswered attempt is
const TIMEOUT = 30_000; // milliseconds; a phone in a tunnel is never told that the connection is gone

/** A request that was not carried out. `message` is for people; `field` names the field of the request it is about. */
export class Refusal extends Error {
  /**
   * @param {number} status of the response; 0: no server answered
   * @param {RefusalBody} body `{}` if it was not the API that answered
   * @param {number | null} retryAfter seconds
   */
  constructor(status, body, retryAfter = null) {
    super(body.message ?? t("unreachable"));
    this.status = status;
    this.isUnsure = false; // whether it was perhaps carried out all the same
    this.code = body.code ?? "unreachable";
    this.field = body.field ?? null;
    this.body = body;
    this.retryAfter = retryAfter;
  }

  /** Whether the access token that was sent is no longer valid. */
  get isLoggedOut() {
    return this.code === "unauthorized";
  }
}

export class Api {
  /**
   * @param {import("./session.js").Session | null} session whose access token is sent
   * @param {(refusal: Refusal) => unknown} onLoggedOut called when the token turns out to be no longer valid
   */
  constructor(session = null, onLoggedOut = () => {}) {
    this.session = session;
    this.onLoggedOut = onLoggedOut;
    /** @type {Record<string, string>} sent with every request */
    this.headers = {};
  }

  /**
   * Send a GET request.
   *
   * @template {keyof GetRoutes} Path
   * @param {Path} path for example "user/status"
   * @param {Query} query values that are null or "" are left out
   * @param {RequestInit} options
   * @returns {Promise<GetReply<Path>>}
   */
  get(path, query = {}, options = {}) {
    return this.request(`api/${path}?${queryString({ ...query, language })}`, options);
  }

  /**
   * Send a POST request with a JSON body.
   *
   * @template {keyof PostRoutes} Path
   * @param {Path} path
   * @param {PostBody<Path>} body
   * @param {RequestInit} options
   * @returns {Promise<PostReply<Path>>}
   */
  async post(path, body, options = {}) {
    const item = ATTEMPT + path;
    const key = sessionStorage.getItem(item) ?? crypto.getRandomValues(new BigUint64Array(2)).join("-");
    const isRepeated = this.isUnanswered(path);
    const isSent = navigator.onLine || isRepeated;
    if (isSent) {
      sessionStorage.setItem(item, key); // already now: the page may be gone before the answer comes
    }
    const headers = { "Content-Type": "application/json", [KEY_HEADER]: key };
    const text = JSON.stringify({ ...body, language });
    try {
      const reply = await this.request(`api/${path}`, { method: "POST", headers, body: text, ...options }, isRepeated);
      sessionStorage.removeItem(item);
      return reply;
    } catch (error) {
      const refusal = asRefusal(error);
      if (isSent && refusal.code === "unreachable") {
        refusal.isUnsure = true;
        refusal.message = t("unsure");
      } else {
        sessionStorage.removeItem(item);
      }
      throw refusal;
    }
  }

  /**
   * Return whether the last POST request to this path, perhaps before a reload, got no answer.
   *
   * @param {keyof PostRoutes} path
   */
  isUnanswered(path) {
    return sessionStorage.getItem(ATTEMPT + path) !== null;
  }

  /**
   * @param {string} address
   * @param {RequestInit} options
   * @param {boolean} isRepeated whether an attempt before got no answer, which a refusal then does not explain
   * @returns {Promise<any>}
   */
  async request(address, { headers = {}, ...options }, isRepeated = false) {
    const token = this.session?.current?.token;
    let response;
    let body;
    try {
      const signal = AbortSignal.timeout(TIMEOUT);
      const all = { ...this.headers, ...headers, ...authorization(token) };
      response = await fetch(address, { signal, headers: all, ...options });
      body = await response.json();
    } catch {
      body = {}; // no network, or a proxy's own page
    }
    if (response?.ok && body.success) {
      return body;
    }
    if (isRepeated && body.message) {
      body.message += ` ${t("unsure_before")}`;
    }
    throw this.toRefusal(response, body, token);
  }

  /**
   * Return the body of a reply that goes on until `signal` aborts it. Also throws what `fetch` throws. With
   * `http.legacy_status` a refusal has the status 200; its type tells.
   *
   * @param {string} address
   * @param {{ signal: AbortSignal, headers?: Record<string, string> }} options
   * @returns {Promise<ReadableStream<Uint8Array<ArrayBuffer>>>}
   */
  async stream(address, { signal, headers = {} }) {
    const token = this.session?.current?.token;
    const all = { ...this.headers, ...headers, ...authorization(token) };
    const response = await fetch(address, { signal, headers: all });
    const isStream = response.headers.get("Content-Type")?.startsWith("text/event-stream");
    if (response.ok && isStream && response.body !== null) {
      return response.body;
    }
    throw this.toRefusal(response, await response.json().catch(() => ({})), token);
  }

  /**
   * @param {Response | undefined} response
   * @param {RefusalBody} body
   * @param {string | undefined} token
   */
  toRefusal(response, body, token) {
    const refusal = new Refusal(response?.status ?? 0, body, Number(response?.headers.get("Retry-After")) || null);
    if (token && refusal.isLoggedOut) {
      this.session?.end();
      this.onLoggedOut(refusal);
    }
    return refusal;
  }
}

/**
 * Return `error` if it is a Refusal, throw it if it is anything else: for `catch` blocks that show refusals.
 *
 * @param {unknown} error
 * @returns {Refusal}
 */
export function asRefusal(error) {
  if (error instanceof Refusal) {
    return error;
  }
  throw error;
}

/** @param {Query} query */
export function queryString(query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return String(new URLSearchParams(given.map(([name, value]) => [name, String(value)])));
}

/**
 * @param {string | undefined} token
 * @returns {Record<string, string>}
 */
function authorization(token) {
  return token ? { Authorization: `Bearer ${token}` } : {};
}
