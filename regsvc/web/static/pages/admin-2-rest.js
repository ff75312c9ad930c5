// The rest of the inside of the admin page: keys, live updates, what sends and shows pending decisions, and an
// applicant's details.

import { givePoints, NotesSection } from "../admin/additions.js";
import { claimDrafts } from "../admin/browser-storage.js";
import { decideFor } from "../admin/decisions/actions.js";
import { Keyboard } from "../admin/keyboard.js";
import { LiveUpdates } from "../admin/live-updates.js";
import { api, session } from "../admin/login.js";
import { DecisionSender } from "../admin/pending/decision-sender.js";
import { PendingBar } from "../admin/pending/pending-bar.js";
import { describeDecision } from "../admin/phrases.js";
import { menu } from "../admin/view-switch.js";
import { renderAnswers, renderConversation, renderRecord } from "../admin/views/queue/applicant.js";
import { OverviewStrip } from "../admin/views/queue/overview.js";
import { Readers } from "../admin/views/queue/readers.js";
import { foldedWhy } from "../admin/why.js";
import { asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { byId, link, make } from "../shared/dom.js";
import { EventStream } from "../shared/event-stream.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { effect } from "../shared/signal.js";
import { inside, leave, pending } from "./admin-1-inside.js";

/** @typedef {import("../admin/pending/pending-decision.js").PendingDecision} PendingDecision */

export const keyboard = new Keyboard();
export const updates = new LiveUpdates(api, pending);
const sender = new DecisionSender(api, pending);
const pendingBar = new PendingBar(pending, sender);
const stream = new EventStream(api, {
  onEvent: handleEvent,
  onState: (state) => {
    const { shell, views } = inside;
    shell?.navBar.showLive(state);
    if (state.is === "live" && views?.hasFailed) {
      views.show({ takesFocus: false });
    }
  },
});

/**
 * Begin for an operator who has logged in. Resolves when events are received, or cannot be.
 *
 * @param {Shell} shell
 */
export async function begin(shell) {
  updates.operator = shell.operator;
  shell.cleanups.push(keyboard.add("keys_everywhere", globalKeys()), () => {
    stream.stop();
    updates.operator = "";
  });
  showCount();
  updates.count();
  await stream.start();
}

/**
 * Tell operators without an address that they would not hear of it if somebody changed their password. If that cannot
 * be found out, the page stays as it is: the next visit tells them.
 *
 * @param {Shell} shell
 */
export async function tellOfMissingAddress({ operator, container }) {
  if (config.registration.passwordReset !== "mail") {
    return;
  }
  try {
    const { data } = await api.get("user/status", { username: operator });
    if (data.registered && !data.email) {
      const add = link("account#email_title", t("no_address_add"));
      container.after(make("p", { class: "quiet-text" }, t("no_address"), " ", add));
    }
  } catch (error) {
    asRefusal(error);
  }
}

export async function logOut() {
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
    const refusal = asRefusal(error);
    session.current && notice.showRefusal(refusal); // unless another request was told that the session is over
  }
}

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

/**
 * @param {string} name of an event, or "missed"
 * @param {any} data
 */
function handleEvent(name, data) {
  if (name !== "sync_finished") {
    updates.countSoon();
  }
  inside.views?.current?.handleEvent(name, data);
  if (data?.username !== undefined) {
    updates.dropSuperseded(name, data); // last, as its message is the more important one
  }
}

/** Show the number of applicants in the menu. */
function showCount() {
  const count = updates.waiting;
  inside.shell?.navBar.showCount(count);
}

/** What screen readers are told about a change of a pending decision. */
const ANNOUNCEMENTS = new Map([
  ["added", "said_added"],
  ["undone", "undone"],
  ["unsent", "said_unsent"],
  ["refused", "said_refused"],
]);

/**
 * Tell screen readers of a change.
 *
 * @param {string} change
 * @param {PendingDecision} entry
 */
function say(change, entry) {
  const key = ANNOUNCEMENTS.get(change);
  const isRetry = change === "unsent" && entry.failures > 1;
  if (key !== undefined && !isRetry) {
    pendingBar.announce(t(key, { what: describeDecision(entry), why: entry.message }));
  }
}

/** @type {import("../admin/pending/pending-decisions.js").ChangeListener} */
function handleDecision(change, entry, results) {
  if (change === "changed" || entry === null) {
    return;
  }
  say(change, entry);
  if (change === "added" && notice.element.dataset.kind !== "bad") {
    notice.clear(); // it was about the decision before
  }
  if (change === "sent") {
    pendingBar.announce(""); // that it can be undone is no longer true
    updates.noteSent(entry, results);
  }
  inside.views?.current?.handleDecision(change, entry, results);
}

effect(showCount);
byId("main").append(pendingBar.element, pendingBar.status);
pending.emit = handleDecision;
pending.entries.forEach((entry) => say("added", entry)); // restored, or made already

export {
  decideFor,
  foldedWhy,
  givePoints,
  NotesSection,
  OverviewStrip,
  Readers,
  renderAnswers,
  renderConversation,
  renderRecord,
};
