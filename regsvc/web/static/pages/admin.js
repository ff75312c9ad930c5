// The operators' page: who may come in, and one view after the other inside.

import { auditsView } from "../admin/views/audits.js";
import { bansView } from "../admin/views/bans.js";
import { Bar } from "../admin/nav-bar.js";
import { doctorView } from "../admin/views/doctor.js";
import { Keys } from "../admin/keyboard.js";
import { Live } from "../admin/live/event-stream.js";
import { mailsView } from "../admin/views/mails.js";
import { Office, readAddress } from "../admin/view-context.js";
import { OUTCOMES, Pending } from "../admin/pending/pending-decisions.js";
import { queueView } from "../admin/views/queue.js";
import { syncView } from "../admin/views/sync.js";
import { Tray } from "../admin/pending/pending-bar.js";
import { userView } from "../admin/views/user.js";
import { usersView } from "../admin/views/users.js";
import { listNames, nameOfStatus, whatIsDecided } from "../admin/phrases.js";
import { Api, Refusal } from "../shared/api.js";
import { button, fillWith, make } from "../shared/dom.js";
import { loginForm } from "../shared/login.js";
import { start, turnTo } from "../shared/page.js";
import { notice } from "../shared/notice.js";
import { Session } from "../shared/session.js";
import { hasWord, word } from "../shared/i18n.js";

/**
 * The views, in the order of the menu. One is `{ id, title, draw(office, query) }`: `title` is the key of its name,
 * `draw` comes back with its elements or a promise of them. More: `isInMenu: false`, with `menu` the id of the view it
 * belongs to; `heading(query)` for a heading that is not its title.
 */
const VIEWS = [queueView, usersView, userView, bansView, auditsView, syncView, mailsView, doctorView];

const COUNT_AFTER = 500; // milliseconds; many events at once are one question
const GONE_ELSEWHERE = ["approve", "reject"]; // what nobody can decide any more when somebody else has

const inside = document.getElementById("inside");
const session = new Session("admin");
const api = new Api(session, () => leave(word("login_ended"), "bad"));
const keys = new Keys();
const pending = new Pending(api, follow);
const tray = new Tray(pending);
const live = new Live(api, { hear, tell: (state) => desk?.bar.showLive(state) });

let config;
let desk = null; // while somebody is logged in
let visit = null; // to the view that is shown
let lastUsername = "";

async function draw() {
  document.getElementById("main").append(tray.element, tray.said);
  config = (await api.get("config")).config;
  await (session.current === null ? showLogin() : enter());
}

// --- Coming and going ---

async function showLogin(text = "", kind = "") {
  const form = await loginForm({
    api,
    config,
    path: "admin/login",
    username: lastUsername,
    onLogin: (reply) => {
      session.begin(reply);
      return enter();
    },
  });
  turnTo(word("login_title"), form.element);
  if (text) {
    notice.tell(text, kind);
  }
}

async function enter() {
  try {
    await api.get("admin/verify");
  } catch (refusal) {
    if (refusal.code !== "forbidden") {
      throw refusal;
    }
    session.end();
    await showLogin(refusal.message, "bad"); // no operator any more
    return;
  }
  const operator = session.current.username;
  lastUsername = operator;
  const bar = new Bar(VIEWS.filter(({ isInMenu = true }) => isInMenu), { operator, logOut, showKeys: () => keys.show() });
  const place = make("div", { class: "view" });
  const dropKeys = keys.add("keys_everywhere", keysOfTheDesk());
  desk = { api, config, operator, pending, keys, live, bar, place, dropKeys, redraw: () => show({ isAgain: true }) };
  notice.clear();
  fillWith(inside, bar.element, place);
  const dropped = pending.begin(operator);
  if (dropped.length) {
    notice.tell(word("dropped", { what: dropped.map(whatIsDecided).join("; ") }), "bad");
  }
  await live.start(); // first, so that nothing happens between what is shown and what is heard
  count();
  await show({ isFirst: true });
}

function closeDesk(message) {
  visit?.end();
  live.stop();
  pending.pause(message);
  desk.dropKeys();
  [desk, visit] = [null, null];
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
}

/** Nobody is logged in any more, `text` says why. */
async function leave(text, kind) {
  if (desk === null) {
    return; // several requests have heard it at once
  }
  closeDesk(text);
  try {
    await showLogin(text, kind);
  } catch (refusal) {
    fillWith(inside, button(word("try_again"), () => location.reload(), ""));
    notice.refuse(refusal);
  }
}

async function logOut() {
  if (!(await pending.flush())) {
    notice.tell(word("log_out_unsent"), "bad");
    return;
  }
  try {
    const { message } = await api.post("logout");
    session.end();
    pending.clear();
    await leave(message, "good");
  } catch (refusal) {
    notice.refuse(refusal);
  }
}

// --- Views ---

function keysOfTheDesk() {
  const places = VIEWS.filter(({ isInMenu = true }) => isInMenu).slice(0, 9);
  const goThere = places.map(({ id, title }, place) => [String(place + 1), { word: "key_view", facts: { view: word(title) }, action: () => (location.hash = id) }]);
  return {
    "u z": { word: "key_undo", action: undoLast },
    ...Object.fromEntries(goThere),
    "?": { word: "key_help", action: () => keys.show() },
  };
}

function undoLast() {
  if (pending.undoLast() === null) {
    notice.say(word("nothing_to_undo"));
  }
}

/** The view that the address names. `isAgain`: it is there already, so nobody has to be told. */
async function show({ isFirst = false, isAgain = false } = {}) {
  const { id, query } = readAddress(location.hash);
  const view = VIEWS.find((candidate) => candidate.id === id) ?? (visit === null || id === "" ? VIEWS[0] : null);
  if (view === null || desk === null) {
    return; // "#main", from the link for keyboards
  }
  visit?.end();
  const office = new Office(desk, view);
  visit = office;
  desk.bar.mark(view.menu ?? view.id);
  const heading = view.heading?.(query) ?? word(view.title);
  const title = make("h2", { tabindex: "-1" }, heading);
  if (!isAgain) {
    fillWith(desk.place, title, make("p", { class: "quiet-text" }, word("loading")));
  }
  const elements = await drawn(view, office, query);
  if (office.isOver) {
    return;
  }
  fillWith(desk.place, title, elements);
  if (!isFirst && !isAgain) {
    notice.clear();
    title.focus();
  }
}

/** The elements of the view; if it cannot be drawn, why, and a button to try again. */
async function drawn(view, office, query) {
  try {
    return await view.draw(office, query);
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) {
      throw refusal;
    }
    return [make("p", { class: "notice", "data-kind": "bad", role: "alert" }, refusal.message), button(word("try_again"), () => show(), "")];
  }
}

// --- What happens ---

/** An event, or "missed". */
function hear(name, data) {
  if (name !== "sync_finished") {
    count();
  }
  visit?.hear(name, data);
  giveUp(data); // last, as it has more to say
}

/** Somebody else has decided about a person whose approval or rejection waits here: he was faster. */
function giveUp(data) {
  const entry = data?.username === undefined ? null : pending.find(data.username);
  if (entry?.state === "unsent" && entry.isUnsure && data.by === desk.operator && data.status === OUTCOMES[entry.decision]) {
    pending.confirm(entry, data.username); // the answer alone was lost
  } else if (entry !== null && data.status !== "pending" && GONE_ELSEWHERE.includes(entry.decision) && entry.state !== "sending") {
    pending.take(entry, [data.username]);
    notice.say(word("faster", { operator: data.by, name: data.username, status: nameOfStatus(data.status) }), "bad");
  }
}

let counting = null;

/** How many wait, soon. */
function count() {
  counting ??= setTimeout(async () => {
    counting = null;
    if (desk === null) {
      return;
    }
    try {
      const { pagination } = await api.get("admin/users", { status: "pending", size: 1 });
      desk?.bar.showCount(pagination.totalCount);
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal; // a number that cannot be asked for is asked for again with the next event
      }
    }
  }, COUNT_AFTER);
}

/** What became of a decision. */
function follow(what, entry, facts) {
  tray.draw();
  if (what === "tick") {
    return;
  }
  const told = { added: "said_added", undone: "undone", unsent: "said_unsent", refused: "said_refused" }[what];
  if (told) {
    tray.say(word(told, { what: whatIsDecided(entry), why: entry.message }));
  }
  if (what === "added" && notice.element.dataset.kind !== "bad") {
    notice.clear(); // it was about the one before
  }
  if (what === "sent") {
    warn(facts.results);
    count();
  }
  visit?.watch(what, entry, facts);
}

/** Done, but not all the way yet: by name. */
function warn(results) {
  const warned = new Map();
  results.forEach(({ username, warnings = [] }) => warnings.forEach((code) => warned.set(code, [...(warned.get(code) ?? []), username])));
  const lines = [...warned].map(([code, names]) => `${listNames(names)}: ${hasWord(`warning_${code}`) ? word(`warning_${code}`) : code}`);
  if (lines.length) {
    notice.say(lines.join("\n"), "bad");
  }
}

addEventListener("hashchange", () => show());
addEventListener("pageshow", ({ persisted }) => persisted && location.reload()); // what it waited for was sent
start(draw);
