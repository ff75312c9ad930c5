// The player's own account: the status of the registration, and everything the player may change.

import { lookForRole, renderMembership, stayForm } from "../account/membership.js";
import { beginAgain } from "../register/draft.js";
import { Api, asRefusal, Refusal } from "../shared/api.js";
import { config, linkContact } from "../shared/config.js";
import { button, definitionList, link, make, replaceContent } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { formatTime, t } from "../shared/i18n.js";
import { joinHelp } from "../shared/join-help.js";
import { loginForm } from "../shared/login.js";
import { notice } from "../shared/notice.js";
import { showSection, startPage } from "../shared/page.js";
import { loadPart, prefetchPart } from "../shared/parts.js";
import { recallAnswer } from "../shared/recall.js";
import { Session } from "../shared/session.js";
import { ownWhy } from "../shared/why.js";

/** @typedef {typeof import("./account-1-sections.js")} Sections */

const SECTIONS = 0; // the part of the page with what is in them
const isMailed = config.registration.passwordReset === "mail";
const session = new Session("user");
const ENDING = /** @type {const} */ (["logout", "user/password", "user/delete"]); // what ends the session
const api = new Api(session, () => {
  const doubt = ENDING.some((path) => api.isUnanswered(path)) ? [t("unsure_before")] : [];
  showLogin([t("login_ended"), ...doubt].join(" "), "bad");
});
let lastUsername = "";

async function render() {
  for (const path of ENDING) {
    const done = session.current && (await recallAnswer(api, path)); // before a reload
    if (done) {
      leave(done.message ?? "");
      return;
    }
  }
  await (session.current === null ? showLogin() : openAccount(session.current.username));
}

/** Show the login form, with the message that led here, if any. */
function showLogin(text = "", kind = "") {
  const form = loginForm({
    api,
    config,
    path: "login",
    username: lastUsername,
    onLogin: (reply, stays) => {
      session.begin(reply, stays);
      return openAccount(reply.username);
    },
  });
  const links = make(
    "p",
    { class: "buttons" },
    link("forgot-password", t("forgot"), { class: "button quiet" }),
    link("register", t("register"), { class: "button quiet" }),
  );
  showSection(t("login_title"), form.element, links, statusLookup());
  if (text) {
    notice.announce(text, kind);
  }
}

/** For applicants who have no password yet: their status. The reason is only shown after the login. */
function statusLookup() {
  const result = make("p", { "aria-live": "polite" });
  const form = new Form({
    fields: [new Field("username", t("login_name_only"), { autocomplete: "username" })],
    submit: t("look_up"),
    kind: "quiet",
    send: async ({ username }) => {
      const { status, hasEnded, username: name } = await api.get("review/status", { username: username.trim() });
      result.textContent = t("looked_up", { name, status: t(hasEnded ? "membership_over" : `status_${status}`) });
    },
  });
  form.element.addEventListener("submit", () => replaceContent(result)); // it may be about another name
  return make(
    "details",
    {},
    make("summary", {}, t("look_up_title")),
    make("p", { class: "quiet-text" }, t("look_up_hint")),
    form.element,
    result,
  );
}

/**
 * Show the account, and again if it turns out that a lost role is back.
 *
 * @param {string} username
 */
async function openAccount(username) {
  const user = await showAccount(username);
  if (await lookForRole(api, user)) {
    await showAccount(username);
  }
}

/** @param {string} username */
async function showAccount(username) {
  lastUsername = username;
  const { data } = await api.get("user/status", { username });
  if (!data.registered) {
    throw new Refusal(404, { message: t("gone") });
  }
  notice.clear();
  const user = { ...data, username: data.username ?? username };
  const account = { api, config, session, user, leave, refresh: async () => void (await showAccount(username)) };
  const isInTeam = session.current?.isAdmin === true;
  const sections = [
    "password_title",
    isInTeam && "made_title",
    "totp_title",
    "sessions_title",
    isMailed && "email_title",
    config.chat.enabled && "chat_title",
    "export_title",
    "delete_title",
  ];
  showSection(
    user.username,
    renderOverview(account),
    data.status === "approved" && !data.hasEnded && joinHelp(api, config, { heading: "h3", username: user.username }),
    isInTeam && make("p", {}, link("admin", t("to_admin"), { class: "button quiet" })),
    make(
      "div",
      { class: "sections", onpointerover: () => prefetchPart(SECTIONS) },
      sections.map((title) => title && renderSection(title, account)),
    ),
    button(t("log_out"), logOut, "quiet"),
  );
  return user;
}

/**
 * Return the key of what comes next for a user: what is promised depends on whether a mail would reach them.
 *
 * @param {OwnStatus} user
 */
function adviceKey({ status, canBeMailed, reapplyAt, answerBy }) {
  if (answerBy) {
    return "asked";
  }
  if (status === "pending" && !isMailed) {
    return "advice_pending_unmailed";
  }
  if (status === "pending" && !canBeMailed) {
    return "advice_pending_no_email";
  }
  return status === "rejected" && reapplyAt ? "advice_rejected_until" : `advice_${status}`;
}

/** @param {Account} account */
function renderOverview(account) {
  const { user } = account;
  const { status, reason, email, reviewedAt, reapplyAt, answerBy, hasEnded, membership } = user;
  const { applicationToken: token } = user;
  const address = config.gameAddress;
  const advice = hasEnded
    ? t("ended_why")
    : status === "approved" && address
      ? t("advice_approved_at", { address })
      : t(adviceKey(user), { email, date: formatTime(reapplyAt ?? answerBy) });
  const place = make("span", { "aria-live": "polite" }, linkContact(advice));
  if (status === "approved") {
    ownWhy(api, "user/why", place, advice);
  }
  const kind = answerBy ? "wait" : hasEnded || status === "rejected" || status === "banned" ? "bad" : "good";
  const title = t(hasEnded ? "membership_over" : `status_${answerBy ? "asked" : status}`);
  return [
    make("p", { class: "notice", "data-kind": kind }, make("strong", {}, title), "\n", place),
    answerBy && token && make("p", {}, link(`application#token=${token}`, t("asked_answer"), { class: "button" })),
    renderMembership(user),
    definitionList([
      [t("reason"), reason],
      [t("reviewed_at"), formatTime(reviewedAt)],
      [t("member_until"), formatTime(membership?.endsAt)],
      [t("email"), email],
    ]),
    stayForm(account),
    status === "rejected" && !reapplyAt && make("p", {}, applyAgain(token)),
  ];
}

/** @param {string | undefined} token of the rejected application, which proves its address */
function applyAgain(token) {
  const onclick = () => token && beginAgain(token);
  return link("register", t("register_again"), { class: "button", onclick });
}

/**
 * Render a section that opens; its content is loaded when it is opened first.
 *
 * @param {string} title
 * @param {Account} account
 */
function renderSection(title, account) {
  const container = make("div", { class: "section", "aria-live": title === "chat_title" ? "polite" : null });
  const show = (/** @type {Child[]} */ ...children) => replaceContent(container, ...children);
  const renderAgain = async () => {
    const { sections } = /** @type {Sections} */ (await loadPart(SECTIONS));
    show(await sections[title](account, { show, renderAgain }));
  };
  const ontoggle = (/** @type {{ target: HTMLDetailsElement }} */ { target }) =>
    target.open && !container.hasChildNodes() && renderAgain().catch((error) => notice.showRefusal(asRefusal(error)));
  const { status, canBeMailed } = account.user;
  const isMissing = title === "email_title" && status === "pending" && !canBeMailed;
  const open = isMissing || location.hash === `#${title}`; // a link from another page led to it
  return make("details", { id: title, open, ontoggle }, make("summary", {}, t(title)), container);
}

/**
 * End the session; `text` says why.
 *
 * @param {string} text
 */
function leave(text) {
  session.end();
  showLogin(text, "good");
}

async function logOut() {
  try {
    const { message = "" } = await api.post("logout", {});
    leave(message);
  } catch (error) {
    const refusal = asRefusal(error);
    session.current && notice.showRefusal(refusal); // unless another request was told that the session is over
  }
}

startPage(render);
