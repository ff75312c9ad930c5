// Linking a chat account: the platform's address, and noticing from here when somebody has been there.

const ASK_AGAIN = 3000; // milliseconds

const NAMES = { discord: "Discord" };

export function nameOfPlatform({ chat }) {
  return NAMES[chat.platform] ?? chat.platform;
}

/** `{authUrl, linkToken}`. The link can be finished in this browser alone. */
export function begin(api, username) {
  return api.get("chat/auth", { username });
}

/** The name of the account that the token's link brought, null while there is none. */
export async function ask(api, username, linkToken = null) {
  const headers = linkToken ? { "X-Link-Token": linkToken } : {};
  const { linked, user } = await api.get("chat/status", { username }, { headers });
  return linked && user ? (user.globalName ?? user.username) : null;
}

/** Ask again and again while `element` is on the page and somebody looks at it; `onLinked(account)` ends it. */
export function follow(api, username, linkToken, element, onLinked) {
  let isAsking = false;
  const look = async () => {
    if (!element.isConnected) {
      stop();
      return;
    }
    if (isAsking || document.hidden) {
      return;
    }
    isAsking = true;
    const account = await ask(api, username, linkToken).catch(() => null); // the next look may succeed
    isAsking = false;
    if (account !== null && element.isConnected) {
      stop();
      onLinked(account);
    }
  };
  const timer = setInterval(look, ASK_AGAIN);
  const stop = () => {
    clearInterval(timer);
    removeEventListener("focus", look);
    document.removeEventListener("visibilitychange", look);
  };
  addEventListener("focus", look);
  document.addEventListener("visibilitychange", look);
}
