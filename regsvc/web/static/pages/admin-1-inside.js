// The inside of the admin page: one view at a time. It has what the review queue needs to be seen; the rest is loaded
// once the first view is shown.

import { claimDrafts } from "../admin/browser-storage.js";
import { loadRest, prefetchLater } from "../admin/later.js";
import { api, session, showLogin } from "../admin/login.js";
import { NavBar } from "../admin/nav-bar.js";
import { PendingDecisions } from "../admin/pending/pending-decisions.js";
import { setPermissions } from "../admin/permissions.js";
import { describeDecision } from "../admin/phrases.js";
import { menu, ViewSwitch } from "../admin/view-switch.js";
import { asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { byId, make, replaceContent } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @typedef {import("../admin/later.js").Rest} Rest */

const content = byId("inside");

/** @type {{ shell: Shell | null, views: ViewSwitch | null }} what is shown while an operator is logged in */
export const inside = { shell: null, views: null };

/** Until the rest is there, which tells more of it, only the view hears of a decision. */
export const pending = new PendingDecisions((...change) => inside.views?.current?.handleDecision(...change));

api.onLoggedOut = () => leave(t("login_ended"), "bad");

/**
 * Show the inside to an operator who has logged in, or the login to somebody who is no longer one.
 *
 * @param {string} operator
 * @param {Promise<GetReply<"admin/verify">>} verified
 * @param {{ isLogin?: boolean }} options whether the login has just been sent: then the focus moves on to the view
 */
export async function enter(operator, verified, { isLogin = false } = {}) {
  try {
    setPermissions((await verified).permissions);
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal.code !== "forbidden") {
      throw refusal;
    }
    session.end();
    showLogin(refusal.message, "bad"); // the user is no longer an operator
    return;
  }
  claimDrafts(operator);
  const shell = makeShell(operator);
  const views = new ViewSwitch(shell);
  inside.shell = shell;
  inside.views = views;
  notice.clear();
  replaceContent(content, shell.navBar.element, shell.container);
  const dropped = pending.begin(operator);
  if (dropped.length) {
    notice.announce(t("dropped", { what: dropped.map(describeDecision).join("; ") }), "bad");
  }
  await views.show({ keepsNotice: true, takesFocus: isLogin && dropped.length === 0 });
  const rest = await shell.loadRest();
  await rest.tellOfMissingAddress(shell);
  await prefetchLater();
}

/**
 * @param {string} operator
 * @returns {Shell}
 */
function makeShell(operator) {
  /** @type {Promise<Rest> | null} */
  let loading = null;
  const begin = async () => {
    await painted(shell.container);
    const rest = await loadRest();
    if (inside.shell === shell) {
      await rest.begin(shell);
    }
    shell.rest = rest;
    return rest;
  };
  const withRest = (/** @type {(rest: Rest) => unknown} */ action) => async () => action(await shell.loadRest());
  /** @type {Shell} */
  const shell = {
    api,
    config,
    operator,
    pending,
    rest: null,
    loadRest: () => {
      loading ??= begin();
      return loading;
    },
    navBar: new NavBar(menu(), {
      operator,
      logOut: withRest((rest) => rest.logOut()),
      showKeys: withRest(({ keyboard }) => keyboard.show()),
    }),
    container: make("div", { class: "view" }),
    cleanups: [],
  };
  return shell;
}

/**
 * Wait until an element is shown; in a tab that is in the background, nobody waits for it.
 *
 * @param {Element} element
 * @returns {Promise<void>}
 */
function painted(element) {
  return new Promise((resolve) => {
    const observer = new IntersectionObserver(() => {
      observer.disconnect();
      resolve();
    });
    if (document.hidden) {
      resolve();
    } else {
      observer.observe(element);
    }
  });
}

/**
 * Show the login, because the session is over.
 *
 * @param {string} text why nothing can be sent any more
 * @param {string} kind
 */
export function leave(text, kind) {
  const { shell, views } = inside;
  if (shell === null) {
    return; // several requests were refused at once
  }
  views?.end();
  pending.pause(text);
  shell.cleanups.forEach((cleanup) => cleanup());
  shell.navBar.end();
  inside.shell = null;
  inside.views = null;
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  showLogin(text, kind);
}

addEventListener("hashchange", () => inside.views?.show());
addEventListener("pageshow", ({ persisted }) => persisted && location.reload()); // what was pending has been sent
