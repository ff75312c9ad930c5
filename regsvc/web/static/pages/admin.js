// The admin page: the login of operators, and inside one view at a time.

import { ANSWERS_CHANGED, OUTCOMES } from "../admin/decisions/transitions.js";
import { Keyboard } from "../admin/keyboard.js";
import { NavBar } from "../admin/nav-bar.js";
import { PendingBar } from "../admin/pending/pending-bar.js";
import { PendingDecisions } from "../admin/pending/pending-decisions.js";
import { may, setPermissions } from "../admin/permissions.js";
import { describeDecision, listNames, statusName } from "../admin/phrases.js";
import { parseHash, ViewContext } from "../admin/view-context.js";
import { auditsView } from "../admin/views/audits.js";
import { bansView } from "../admin/views/bans.js";
import { doctorView } from "../admin/views/doctor.js";
import { mailsView } from "../admin/views/mails.js";
import { queueView } from "../admin/views/queue.js";
import { serverView } from "../admin/views/server.js";
import { syncView } from "../admin/views/sync.js";
import { teamView } from "../admin/views/team.js";
import { userView } from "../admin/views/user.js";
import { usersView } from "../admin/views/users.js";
import { Api, asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { button, byId, link, make, replaceContent } from "../shared/dom.js";
import { EventStream } from "../shared/event-stream.js";
import { hasText, t } from "../shared/i18n.js";
import { loginForm } from "../shared/login.js";
import { notice } from "../shared/notice.js";
import { showSection, startPage } from "../shared/page.js";
import { Session } from "../shared/session.js";
import { effect, Signal } from "../shared/signal.js";

/** In the order of the menu. */
const VIEWS = [
  queueView,
  usersView,
  userView,
  bansView,
  auditsView,
  syncView,
  mailsView,
  serverView,
  doctorView,
  teamView,
];

/** The views of the member of the team who is logged in. */
const views = () => VIEWS.filter(({ permission }) => permission === undefined || may(permission));
const menu = () => views().filter(({ isInMenu = true }) => isInMenu);

const COUNT_DELAY = 500; // milliseconds; many events at once cause one request
const SUPERSEDED = ["approve", "reject"]; // decisions that no longer apply when another operator has decided

const content = byId("inside");
const session = new Session("admin");
const api = new Api(session, () => leave(t("login_ended"), "bad"));
const keyboard = new Keyboard();
const pending = new PendingDecisions(api, handleDecision);
const pendingBar = new PendingBar(pending);
const stream = new EventStream(api, {
  onEvent: handleEvent,
  onState: (state) => shell?.navBar.showLive(state),
});

/** @type {Shell | null} while an operator is logged in */
let shell = null;
/** @type {ViewContext | null} of the view that is shown */
let currentView = null;
let lastUsername = "";
const applicantCount = new Signal(0); // on the server
/** @type {Set<string>} applicants who were decided about here, until they wait again */
const decided = new Set();

async function render() {
  byId("main").append(pendingBar.element, pendingBar.status);
  await (session.current === null ? showLogin() : enter(session.current.username));
}

// --- Logging in and out ---

async function showLogin(text = "", kind = "") {
  const form = await loginForm({
    api,
    config,
    path: "admin/login",
    username: lastUsername,
    onLogin: (reply) => {
      session.begin(reply);
      return enter(reply.username);
    },
  });
  showSection(t("login_title"), form.element);
  if (text) {
    notice.announce(text, kind);
  }
}

/** @param {string} operator */
async function enter(operator) {
  try {
    setPermissions((await api.get("admin/verify")).permissions);
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal.code !== "forbidden") {
      throw refusal;
    }
    session.end();
    await showLogin(refusal.message, "bad"); // the user is no longer an operator
    return;
  }
  lastUsername = operator;
  const navBar = new NavBar(menu(), { operator, logOut, showKeys: () => keyboard.show() });
  const container = make("div", { class: "view" });
  const removeKeys = keyboard.add("keys_everywhere", globalKeys());
  shell = { api, config, operator, pending, keyboard, navBar, container, removeKeys };
  notice.clear();
  replaceContent(content, navBar.element, container);
  showCount();
  const dropped = pending.begin(operator);
  if (dropped.length) {
    notice.announce(t("dropped", { what: dropped.map(describeDecision).join("; ") }), "bad");
  }
  await stream.start(); // first, so that nothing is missed between loading a view and listening
  countSoon();
  await showView({ isFirst: true });
  await tellOfMissingAddress(operator);
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
  currentView?.end();
  stream.stop();
  pending.pause(message);
  shell?.removeKeys();
  shell?.navBar.end();
  shell = null;
  currentView = null;
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
}

/**
 * Show the login, because the session is over.
 *
 * @param {string} text
 * @param {string} kind
 */
async function leave(text, kind) {
  if (shell === null) {
    return; // several requests were refused at once
  }
  closeShell(text);
  try {
    await showLogin(text, kind);
  } catch (error) {
    replaceContent(
      content,
      button(t("try_again"), () => location.reload(), ""),
    );
    notice.showRefusal(asRefusal(error));
  }
}

async function logOut() {
  if (!(await pending.flush())) {
    notice.announce(t("log_out_unsent"), "bad");
    return;
  }
  try {
    const { message = "" } = await api.post("logout", {});
    session.end();
    pending.clear();
    await leave(message, "good");
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}

// --- Views ---

/** @returns {import("../admin/keyboard.js").Bindings} */
function globalKeys() {
  const views = menu()
    .slice(0, 9)
    .map(({ id, title }, index) => [
      String(index + 1),
      { label: "key_view", values: { view: t(title) }, action: () => goTo(id) },
    ]);
  return {
    "u z": { label: "key_undo", action: undoLast },
    ...Object.fromEntries(views),
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
 * Show the view that the address names.
 *
 * @param {{ isFirst?: boolean }} options the first view after the login does not take the focus
 */
async function showView({ isFirst = false } = {}) {
  const { id, query } = parseHash(location.hash);
  const fallback = currentView === null || id === "" ? VIEWS[0] : null;
  const view = views().find((candidate) => candidate.id === id) ?? fallback;
  if (view === null || shell === null) {
    return; // "#main", from the skip link
  }
  currentView?.end();
  const context = new ViewContext(shell, view);
  currentView = context;
  shell.navBar.setCurrent(view.menu ?? view.id);
  const heading = view.heading?.(query) ?? t(view.title);
  shell.navBar.setHeading(heading);
  const title = make("h2", { tabindex: "-1" }, heading);
  replaceContent(shell.container, title, make("p", { class: "quiet-text" }, t("loading")));
  const elements = await renderView(view, context, query);
  if (context.isOver) {
    return;
  }
  replaceContent(shell.container, title, elements);
  if (!isFirst) {
    notice.clear();
    title.focus();
  }
}

/**
 * Return the elements of the view, or the reason why it cannot be loaded and a button to try again.
 *
 * @param {View} view
 * @param {ViewContext} context
 * @param {Record<string, string>} query
 * @returns {Promise<Child>}
 */
async function renderView(view, context, query) {
  try {
    return await view.render(context, query);
  } catch (error) {
    const { message } = asRefusal(error);
    return [
      make("p", { class: "notice", "data-kind": "bad", role: "alert" }, message),
      button(t("try_again"), () => showView(), ""),
    ];
  }
}

// --- Events and decisions ---

/**
 * @param {string} name of an event, or "missed"
 * @param {any} data
 */
function handleEvent(name, data) {
  if (name !== "sync_finished") {
    countSoon();
  }
  currentView?.handleEvent(name, data);
  if (data?.username !== undefined) {
    dropSuperseded(name, data); // last, as its message is the more important one
  }
}

/**
 * Drop the pending approval or rejection of a user about whom another operator has decided, or whose answers are no
 * longer those that the operator has read.
 *
 * @param {string} name of the event
 * @param {{ username: string, status: string, by: string }} event
 */
function dropSuperseded(name, { username, status, by }) {
  const entry = pending.find(username);
  const isSending = entry?.state === "sending";
  if (status === "pending" && name !== ANSWERS_CHANGED) {
    decided.delete(username);
  }
  // an event that was read before the decision was carried out may arrive after it
  if (name === ANSWERS_CHANGED && (isSending || status !== "pending" || decided.has(username))) {
    notice.show(t("answers_changed_late", { name: username }), "bad");
  }
  if (entry === null || shell === null) {
    return;
  }
  if (entry.state === "unsent" && entry.isUnsure && by === shell.operator && status === OUTCOMES[entry.decision]) {
    pending.confirm(entry, username); // it had arrived, only the answer was lost
    return;
  }
  if (isSending || !SUPERSEDED.includes(entry.decision)) {
    return;
  }
  if (status !== "pending") {
    pending.removeUsers(entry, [username]);
    notice.show(t("faster", { operator: by, name: username, status: statusName(status) }), "bad");
  } else if (name === ANSWERS_CHANGED) {
    pending.removeUsers(entry, [username]);
    notice.show(t("answers_changed_unsent", { name: username }), "bad");
  }
}

/** Show the number of applicants in the menu, without those whom pending decisions are about. */
function showCount() {
  const count = applicantCount.value - pending.reviewCount;
  shell?.navBar.showCount(Math.max(0, count));
}

let isCounting = false;

/** Update the number of applicants in the menu, soon. */
function countSoon() {
  if (isCounting) {
    return;
  }
  isCounting = true;
  setTimeout(async () => {
    isCounting = false;
    if (shell === null) {
      return;
    }
    try {
      const { pagination } = await api.get("admin/users", { status: "pending", size: 1 });
      applicantCount.value = pagination.totalCount ?? 100_000; // more are not counted
    } catch (error) {
      asRefusal(error); // it is counted again after the next event
    }
  }, COUNT_DELAY);
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
    const done = results.filter(({ username }) => entry.applicants.includes(username));
    done.forEach(({ username }) => decided.add(username));
    applicantCount.value -= done.length; // until they are counted again
    showWarnings(results);
    countSoon();
  }
  currentView?.handleDecision(change, entry, results);
}

/**
 * Name the users whose decision was carried out, but not completely yet.
 *
 * @param {DecisionOutcome[]} results
 */
function showWarnings(results) {
  /** @type {Map<string, string[]>} names by warning */
  const warned = new Map();
  for (const { username, warnings = [] } of results) {
    for (const code of warnings) {
      warned.set(code, [...(warned.get(code) ?? []), username]);
    }
  }
  const lines = [...warned].map(([code, names]) => {
    const text = hasText(`warning_${code}`) ? t(`warning_${code}`) : code;
    return `${listNames(names)}: ${text}`;
  });
  if (lines.length) {
    notice.show(lines.join("\n"), "bad");
  }
}

effect(showCount);
addEventListener("hashchange", () => showView());
addEventListener("pageshow", ({ persisted }) => persisted && location.reload()); // what was pending has been sent
startPage(render);
