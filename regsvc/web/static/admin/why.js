// Why a player cannot join: the answer, and folded what else was looked at.

import { asRefusal } from "../shared/api.js";
import { make, replaceContent } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { badge } from "./badges.js";

/** @type {Record<string, import("./badges.js").Kind>} */
const KINDS = { ok: "good", problem: "bad", unknown: "wait" };

/**
 * Make the panel, which fills itself.
 *
 * @param {import("./view-context.js").ViewContext} context
 * @param {string} username
 */
export function whyPanel(context, username) {
  const section = make("div", { class: "why" });
  context.api.get("admin/user/why", { username }).then(
    (reply) => replaceContent(section, render(reply)),
    (error) => replaceContent(section, make("p", { class: "quiet-text" }, asRefusal(error).message)),
  );
  return section;
}

/**
 * Make a panel that asks once it is unfolded: most cards of the queue are decided about without it.
 *
 * @param {import("./view-context.js").ViewContext} context
 * @param {string} username
 */
export function foldedWhy(context, username) {
  const container = make("div", {});
  const ontoggle = () => container.hasChildNodes() || replaceContent(container, whyPanel(context, username));
  return make("details", { class: "why", ontoggle }, make("summary", {}, t("why_title")), container);
}

/** @param {GetReply<"admin/user/why">} reply */
function render({ answer, steps }) {
  const lines = steps.map(({ verdict, text }) =>
    make("li", {}, badge(t(`why_${verdict}`), KINDS[verdict]), " ", withCode(text)),
  );
  return [
    make("p", {}, answer === null ? t("why_nothing") : withCode(answer.text)),
    make("details", {}, make("summary", {}, t("why_all")), make("ul", { class: "lines" }, lines)),
  ];
}

/** @param {string} text commands are in backticks */
function withCode(text) {
  return text.split(/\x60/u).map((part, index) => (index % 2 ? make("code", {}, part) : part));
}
