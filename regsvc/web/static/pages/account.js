// One's own account: what became of the registration, and everything one may change.

import { Api, Refusal } from "../shared/api.js";
import { button, fillWith, link, make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { loginForm } from "../shared/login.js";
import { start, turnTo } from "../shared/page.js";
import { facts, notice } from "../shared/notice.js";
import { Session } from "../shared/session.js";
import { moment, word } from "../shared/i18n.js";
import { passwordSection } from "../account/password.js";
import { emailSection } from "../account/email.js";
import { chatSection } from "../account/chat.js";
import { exportSection } from "../account/export.js";
import { deleteSection } from "../account/delete.js";

const SECTIONS = [passwordSection, emailSection, chatSection, exportSection, deleteSection];

const session = new Session("user");
const api = new Api(session, () => showLogin(word("login_ended"), "bad"));
let config;
let lastUsername = "";

async function draw() {
  config = (await api.get("config")).config;
  await (session.current ? showAccount() : showLogin());
}

/** `text`: what led here, if anything did. */
async function showLogin(text = "", kind = "") {
  const form = await loginForm({
    api,
    config,
    path: "login",
    username: lastUsername,
    onLogin: (reply) => {
      session.begin(reply);
      return showAccount();
    },
  });
  const ways = make("p", { class: "buttons" }, link("forgot-password", word("forgot"), { class: "button quiet" }), link("register", word("register"), { class: "button quiet" }));
  turnTo(word("login_title"), form.element, ways, statusLookUp());
  if (text) {
    notice.tell(text, kind);
  }
}

/** For those who have no password yet: how far it is. Why is told to its owner alone. */
function statusLookUp() {
  const found = make("p", { "aria-live": "polite" });
  const form = new Form({
    fields: [new Field("username", word("login_name_only"), { autocomplete: "username" })],
    submit: word("look_up"),
    kind: "quiet",
    send: async ({ username }) => {
      const { status, username: name } = await api.get("review/status", { username: username.trim() });
      found.textContent = word("looked_up", { name, status: word(`status_${status}`) });
    },
  });
  return make("details", {}, make("summary", {}, word("look_up_title")), make("p", { class: "quiet-text" }, word("look_up_hint")), form.element, found);
}

async function showAccount() {
  const { username, isAdmin } = session.current;
  lastUsername = username;
  const { data } = await api.get("user/status", { username });
  if (!data.registered) {
    throw new Refusal(404, { message: word("gone") });
  }
  notice.clear();
  const account = { api, config, session, user: data, leave, refresh: showAccount };
  turnTo(
    data.username,
    overview(data),
    isAdmin && make("p", {}, link("admin", word("to_admin"), { class: "button quiet" })),
    make("div", { class: "sections" }, SECTIONS.filter((section) => section.isThere(config)).map((section) => drawSection(section, account))),
    button(word("log_out"), logOut, "quiet"),
  );
}

function overview({ status, reason, email, reviewedAt }) {
  const address = config.gameAddress;
  const advice = status === "approved" && address ? word("advice_approved_at", { address }) : word(`advice_${status}`);
  return [
    make(
      "p",
      { class: "notice", "data-kind": status === "rejected" || status === "banned" ? "bad" : "good" },
      make("strong", {}, word(`status_${status}`)),
      `\n${advice}`,
    ),
    facts([
      [word("reason"), reason],
      [word("reviewed_at"), moment(reviewedAt)],
      [word("email"), email],
    ]),
    status === "rejected" && make("p", {}, link("register", word("register_again"), { class: "button" })),
  ];
}

/** A part that opens: what is in it is asked for when somebody looks. */
function drawSection(section, account) {
  const inside = make("div", { class: "section" });
  const show = async () => {
    try {
      fillWith(inside, await section.draw(account));
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
      notice.refuse(refusal);
    }
  };
  const opens = (event) => event.target.open && !inside.hasChildNodes() && show();
  return make("details", { ontoggle: opens }, make("summary", {}, word(section.title)), inside);
}

/** The session is over; `text` says why. */
function leave(text) {
  session.end();
  return showLogin(text, "good");
}

async function logOut() {
  try {
    const { message } = await api.post("logout");
    await leave(message);
  } catch (refusal) {
    if (!refusal.isLoggedOut) {
      notice.refuse(refusal);
    }
  }
}

start(draw);
