// The bar above the list of applicants while some are selected: how many, and the decisions about all of them.

import { button, make } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";
import { renderActions } from "./applicant.js";

/**
 * @param {import("../../view-context.js").ViewContext} context
 * @param {import("./review-queue.js").ReviewQueue} queue
 * @param {(name: import("./applicant.js").ActionName) => unknown} act
 */
export function bulkBar(context, queue, act) {
  const count = make("p", { role: "status" });
  const all = button(t("choose_all"), () => queue.selectAll(), "plain");
  const none = button(t("choose_none"), () => queue.selectNone(), "plain");
  const buttons = make("div", { class: "text-buttons" }, all, none);
  const element = make("div", { class: "bulk", hidden: true }, count, buttons, renderActions(act));
  context.effect(() => {
    const { size } = queue.selected;
    element.hidden = size === 0;
    count.textContent = size ? t("chosen", { count: size }) : "";
  });
  return element;
}
