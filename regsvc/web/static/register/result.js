// What happens next.

import { link, make } from "../shared/dom.js";
import { turnTo } from "../shared/page.js";
import { notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";

/** `reply`: of the registration. */
export function showResult({ status, message, username, email }, config, { hasPassword }) {
  notice.clear();
  const isApproved = status === "approved";
  const address = config.gameAddress;
  const told = [
    !isApproved && word("next_review", { email }),
    !hasPassword && config.registration.password !== "off" && word("next_password", { email }),
    !isApproved && word(address ? "next_join_then" : "next_join_then_somewhere", { address }),
    isApproved && word(address ? "next_join" : "next_join_somewhere", { address, username }),
  ].filter(Boolean);
  turnTo(
    word(isApproved ? "done_approved" : "done_pending"),
    make("p", { class: "notice", "data-kind": "good" }, message),
    make("h3", {}, word("next_title")),
    make("ol", {}, told.map((text) => make("li", {}, text))),
    make("p", { class: "buttons" }, link("account", word("to_account"), { class: "button" }), link("server", word("to_server"), { class: "button quiet" })),
  );
}
