// Linking a chat account: the platform's address, and polling until the user has been there.

import { platformTitle } from "./platforms.js";

const POLL_INTERVAL = 3000; // milliseconds

/** @param {Config} config */
export function platformName({ chat }) {
  return platformTitle(chat.platform ?? "");
}

/**
 * Start linking; returns `{authUrl, linkToken}`. Only this browser can finish the link.
 *
 * @param {import("./api.js").Api} api
 * @param {string} username
 */
export function startLinking(api, username) {
  return api.get("chat/auth", { username });
}

/**
 * Return the name of the linked account, or null while there is none.
 *
 * @param {import("./api.js").Api} api
 * @param {string} username
 * @param {string | null} linkToken
 */
export async function findLinkedAccount(api, username, linkToken = null) {
  /** @type {Record<string, string>} */
  const headers = linkToken ? { "X-Link-Token": linkToken } : {};
  const { linked, user } = await api.get("chat/status", { username }, { headers });
  return linked && user ? (user.globalName ?? user.username) : null;
}

/**
 * Poll while `element` is on the page and the page is visible, until an account is linked.
 *
 * @param {import("./api.js").Api} api
 * @param {string} username
 * @param {string | null} linkToken
 * @param {Element} element
 * @param {(account: string) => unknown} onLinked
 */
export function pollForAccount(api, username, linkToken, element, onLinked) {
  let isPolling = false;
  const poll = async () => {
    if (!element.isConnected) {
      stop();
      return;
    }
    if (isPolling || document.hidden) {
      return;
    }
    isPolling = true;
    const account = await findLinkedAccount(api, username, linkToken).catch(() => null); // the next poll may succeed
    isPolling = false;
    if (account !== null && element.isConnected) {
      stop();
      onLinked(account);
    }
  };
  const timer = setInterval(poll, POLL_INTERVAL);
  const stop = () => {
    clearInterval(timer);
    removeEventListener("focus", poll);
    document.removeEventListener("visibilitychange", poll);
  };
  addEventListener("focus", poll);
  document.addEventListener("visibilitychange", poll);
}
