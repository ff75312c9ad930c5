// The bar above the list of applicants while some are selected: how many, and the decisions about all of them.

import { button, make } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";
import { formatNumber } from "../../phrases.js";
import { leaveRoom } from "../../room-below.js";
import { renderActions } from "./applicant-summary.js";

/**
 * @typedef {object} BulkActions
 * @property {(name: import("./applicant-summary.js").ActionName) => unknown} act
 * @property {() => unknown} selectAll
 */

/**
 * @param {import("../../view-context.js").ViewContext} context
 * @param {import("./review-queue.js").ReviewQueue} queue
 * @param {BulkActions} actions
 */
export function bulkBar(context, queue, { act, selectAll }) {
  const count = make("p", { role: "status" });
  const all = button("", selectAll, "plain");
  const none = button(t("choose_none"), () => queue.selectNone(), "plain");
  const buttons = make("div", { class: "text-buttons" }, all, none);
  const element = make("div", { class: "bulk", hidden: true }, renderActions(act), count, buttons);
  leaveRoom(element, "--bulk");
  context.effect(() => {
    const { selected, left } = queue;
    const values = { count: formatNumber(selected.size), total: formatNumber(left) };
    element.hidden = selected.size === 0;
    count.textContent = selected.size ? t("chosen_of", values) : "";
    all.textContent = t("choose_all", { count: values.total });
    all.hidden = selected.size >= left;
  });
  return element;
}
