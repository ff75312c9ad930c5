// The page behind a mailed link: it takes the token from the address, and sets a password with it.

import { Api, asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { link, make, replaceContent } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { LANGUAGE_SWITCH, t } from "../shared/i18n.js";
import { joinHelp } from "../shared/join-help.js";
import { notice } from "../shared/notice.js";
import { startPage } from "../shared/page.js";
import { passwordField } from "../shared/password-fields.js";
import { recallAnswer } from "../shared/recall.js";

const api = new Api();
let token = takeToken();

/** Return the token behind the "#", or "", and remove it from the address bar and the history. */
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (location.hash) {
    history.replaceState(null, "", location.pathname);
  }
  return found;
}

/**
 * Replace the form with a message: this link is of no more use.
 *
 * @param {HTMLElement} content
 * @param {string} text
 * @param {string} kind
 * @param {Child[]} children
 */
function finish(content, text, kind, ...children) {
  token = "";
  replaceContent(content, ...children);
  notice.announce(text, kind);
}

/**
 * @param {HTMLElement} content
 * @param {PostReply<"password/reset">} reply
 */
function finishSet(content, { status, hasEnded = false }) {
  const mayJoin = status === "approved" && !hasEnded; // others may still be waiting for their review
  const account = make("p", { class: "buttons" }, link("account", t("to_account"), { class: "button quiet" }));
  finish(content, t(mayJoin ? "done_may_join" : "done"), "good", mayJoin && joinHelp(api, config), account);
}

/** @param {HTMLElement} content */
async function render(content) {
  if (!token) {
    const reply = await recallAnswer(api, "password/reset"); // before a reload
    reply ? finishSet(content, reply) : finish(content, t("link_incomplete"), "bad");
    return;
  }
  const password = passwordField("newPassword", t("password"), config);
  const form = new Form({
    fields: [password],
    submit: t("submit"),
    send: async ({ newPassword }) => {
      finishSet(content, await api.post("password/reset", { token, newPassword }));
    },
    onRefusal: (refusal) => isSpent(refusal),
  });
  const isSpent = (/** @type {import("../shared/api.js").Refusal} */ refusal) => {
    if (refusal.field !== "token") {
      return false;
    }
    finish(content, refusal.message, "bad", make("p", {}, link("forgot-password", t("ask_again"))));
    return true;
  };
  replaceContent(content, form.element);
  // nobody shall think of a password in vain; whatever else goes wrong is told when it is sent
  api.post("password/link", { token }).catch((error) => isSpent(asRefusal(error)));
}

// Opening another link in the same tab changes what is behind the "#", and loads nothing.
addEventListener("hashchange", () => {
  const found = takeToken();
  if (found) {
    token = found;
    startPage(render);
  }
});

// Switching the language reloads the page, and the token is nowhere else.
addEventListener(LANGUAGE_SWITCH, () => {
  if (token) {
    history.replaceState(null, "", `#token=${token}`);
  }
});

startPage(render);
