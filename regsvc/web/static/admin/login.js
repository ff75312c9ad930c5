// The login of operators, and the way from it to the inside of the page.

import { Api, asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { byId, link, make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { loginForm } from "../shared/login.js";
import { notice } from "../shared/notice.js";
import { showSection } from "../shared/page.js";
import { loadPart, prefetchPart } from "../shared/parts.js";
import { Session } from "../shared/session.js";
import { askForQueue } from "./queue-pages.js";

/** @typedef {typeof import("../pages/admin-1-inside.js")} Inside */

const INSIDE = 0;
let lastUsername = "";

export const session = new Session("admin");
export const api = new Api(session);

/**
 * Show the login. While the operator types, the inside is loaded.
 *
 * @param {string} text a notice above it
 * @param {string} kind of the notice
 */
export function showLogin(text = "", kind = "") {
  const form = loginForm({
    api,
    config,
    path: "admin/login",
    username: lastUsername,
    onLogin: (reply) => {
      session.begin(reply);
      return goInside(reply.username, { isLogin: true });
    },
  });
  const isMailed = config.registration.passwordReset === "mail";
  showSection(t("login_title"), form.element, isMailed && make("p", {}, link("forgot-password", t("forgot"))));
  byId("inside").addEventListener("input", () => prefetchPart(INSIDE), { once: true });
  if (text) {
    notice.announce(text, kind);
  }
}

/**
 * Show the inside. Throws a Refusal.
 *
 * @param {string} operator who has logged in
 * @param {{ isLogin?: boolean }} options whether the login has just been sent
 */
export async function goInside(operator, options = {}) {
  lastUsername = operator;
  const verified = api.get("admin/verify");
  verified.catch(() => {}); // whoever waits for it reports it
  askForQueue(api);
  const inside = /** @type {Inside} */ (await loadPart(INSIDE));
  try {
    await inside.enter(operator, verified, options);
  } catch (error) {
    if (asRefusal(error).isLoggedOut) {
      showLogin(t("login_ended"), "bad"); // the token was no longer valid to begin with
    }
    throw error;
  }
}
