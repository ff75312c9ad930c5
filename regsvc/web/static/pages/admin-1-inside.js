// The inside of the admin page: one view at a time.

import { claimDrafts } from "../admin/browser-storage.js";
import { Keyboard } from "../admin/keyboard.js";
import { prefetchLater } from "../admin/later.js";
import { LiveUpdates } from "../admin/live-updates.js";
import { api, session, showLogin } from "../admin/login.js";
import { NavBar } from "../admin/nav-bar.js";
import { DecisionSender } from "../admin/pending/decision-sender.js";
import { PendingBar } from "../admin/pending/pending-bar.js";
import { PendingDecisions } from "../admin/pending/pending-decisions.js";
import { setPermissions } from "../admin/permissions.js";
import { describeDecision } from "../admin/phrases.js";
import { menu, ViewSwitch } from "../admin/view-switch.js";
import { asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { byId, link, make, replaceContent } from "../shared/dom.js";
import { EventStream } from "../shared/event-stream.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { effect } from "../shared/signal.js";

const content = byId("inside");
const keyboard = new Keyboard();
const pending = new PendingDecisions(handleDecision);
const sender = new DecisionSender(api, pending);
const pendingBar = new PendingBar(pending, sender);
const updates = new LiveUpdates(api, pending);
const stream = new EventStream(api, {
  onEvent: handleEvent,
  onState: (state) => {
    shell?.navBar.showLive(state);
    if (state.is === "live" && views?.hasFailed) {
      views.show({ takesFocus: false });
    }
  },
});

/** @type {Shell | null} while an operator is logged in */
let shell = null;
/** @type {ViewSwitch | null} while an operator is logged in */
let views = null;

byId("main").append(pendingBar.element, pendingBar.status);
api.onLoggedOut = () => leave(t("login_ended"), "bad");

// --- Logging in and out ---

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
  const navBar = new NavBar(menu(), { operator, logOut, showKeys: () => keyboard.show() });
  const container = make("div", { class: "view" });
  const removeKeys = keyboard.add("keys_everywhere", globalKeys());
  shell = { api, config, operator, pending, updates, keyboard, navBar, container, removeKeys };
  views = new ViewSwitch(shell);
  updates.operator = operator;
  notice.clear();
  replaceContent(content, navBar.element, container);
  showCount();
  const dropped = pending.begin(operator);
  if (dropped.length) {
    notice.announce(t("dropped", { what: dropped.map(describeDecision).join("; ") }), "bad");
  }
  await Promise.all([stream.start(), updates.count()]); // before a view is loaded, so that nothing is missed
  await views?.show({ keepsNotice: true, takesFocus: isLogin && dropped.length === 0 });
  await tellOfMissingAddress(operator);
  await prefetchLater();
}

/**
 * Tell operators without an address that they would not hear of it if somebody changed their password. If that cannot
 * be found out, the page stays as it is: the next visit tells them.
 *
 * @param {string} operator
 */
async function tellOfMissingAddress(operator) {
  if (config.registration.passwordReset !== "mail") {
    return;
  }
  try {
    const { data } = await api.get("user/status", { username: operator });
    if (data.registered && !data.email) {
      const add = link("account#email_title", t("no_address_add"));
      shell?.container.after(make("p", { class: "quiet-text" }, t("no_address"), " ", add));
    }
  } catch (error) {
    asRefusal(error);
  }
}

/** @param {string} message why nothing can be sent any more */
function closeShell(message) {
  views?.end();
  stream.stop();
  pending.pause(message);
  shell?.removeKeys();
  shell?.navBar.end();
  shell = null;
  views = null;
  updates.operator = "";
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
}

/**
 * Show the login, because the session is over.
 *
 * @param {string} text
 * @param {string} kind
 */
function leave(text, kind) {
  if (shell === null) {
    return; // several requests were refused at once
  }
  closeShell(text);
  showLogin(text, kind);
}

async function logOut() {
  if (!(await sender.flush())) {
    notice.announce(t("log_out_unsent"), "bad");
    return;
  }
  try {
    const { message = "" } = await api.post("logout", {});
    session.end();
    pending.clear();
    claimDrafts("");
    leave(message, "good");
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}

// --- Views ---

/** @returns {import("../admin/keyboard.js").Bindings} */
function globalKeys() {
  const keys = menu()
    .slice(0, 9)
    .map(({ id, title }, index) => [
      String(index + 1),
      { label: "key_view", values: { view: t(title) }, action: () => goTo(id) },
    ]);
  return {
    "u z": { label: "key_undo", action: undoLast },
    ...Object.fromEntries(keys),
    "?": { label: "key_help", action: () => keyboard.show() },
  };
}

/** @param {string} id */
function goTo(id) {
  location.hash = id;
}

function undoLast() {
  if (pending.undoLast() === null) {
    notice.show(t("nothing_to_undo"));
  }
}

// --- Events and decisions ---

/**
 * @param {string} name of an event, or "missed"
 * @param {any} data
 */
function handleEvent(name, data) {
  if (name !== "sync_finished") {
    updates.countSoon();
  }
  views?.current?.handleEvent(name, data);
  if (data?.username !== undefined) {
    updates.dropSuperseded(name, data); // last, as its message is the more important one
  }
}

/** Show the number of applicants in the menu. */
function showCount() {
  const count = updates.waiting;
  shell?.navBar.showCount(count);
}

/** What screen readers are told about a change of a pending decision. */
const ANNOUNCEMENTS = new Map([
  ["added", "said_added"],
  ["undone", "undone"],
  ["unsent", "said_unsent"],
  ["refused", "said_refused"],
]);

/** @type {import("../admin/pending/pending-decisions.js").ChangeListener} */
function handleDecision(change, entry, results) {
  if (change === "changed" || entry === null) {
    return;
  }
  const key = ANNOUNCEMENTS.get(change);
  const isRetry = change === "unsent" && entry.failures > 1;
  if (key !== undefined && !isRetry) {
    pendingBar.announce(t(key, { what: describeDecision(entry), why: entry.message }));
  }
  if (change === "added" && notice.element.dataset.kind !== "bad") {
    notice.clear(); // it was about the decision before
  }
  if (change === "sent") {
    pendingBar.announce(""); // that it can be undone is no longer true
    updates.noteSent(entry, results);
  }
  views?.current?.handleDecision(change, entry, results);
}

effect(showCount);
addEventListener("hashchange", () => views?.show());
addEventListener("pageshow", ({ persisted }) => persisted && location.reload()); // what was pending has been sent
