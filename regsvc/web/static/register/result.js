// The last page of the registration: what happens next.

import { link, make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { joinHelp } from "../shared/join-help.js";
import { notice } from "../shared/notice.js";
import { showSection } from "../shared/page.js";

/**
 * @param {PostReply<"register">} reply
 * @param {Config} config
 * @param {{ api: import("../shared/api.js").Api, hasPassword: boolean }} options
 */
export function showResult({ status, message, username, email }, config, { api, hasPassword }) {
  notice.clear();
  const isApproved = status === "approved";
  const address = config.gameAddress;
  const isMailed = config.registration.email === "verified";
  const next = [
    !isApproved && (isMailed ? t("next_review", { email }) : t("next_review_unmailed")),
    !hasPassword && config.registration.password !== "off" && t("next_password", { email }),
    !isApproved && t(address ? "next_join_then" : "next_join_then_somewhere", { address }),
    isApproved && t(address ? "next_join" : "next_join_somewhere", { address, username }),
  ].filter(Boolean);
  showSection(
    t(isApproved ? "done_approved" : "done_pending"),
    make("p", { class: "notice", "data-kind": "good" }, message),
    make("h3", {}, t("next_title")),
    make(
      "ol",
      {},
      next.map((text) => make("li", {}, text)),
    ),
    isApproved && joinHelp(api, config, "h3"),
    make(
      "p",
      { class: "buttons" },
      link("account", t("to_account"), { class: "button" }),
      link("server", t("to_server"), { class: "button quiet" }),
    ),
  );
}
