// The menu behind the usual decisions: what is needed less often, and what does most harm, in red at its end.

import { button, make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { mayDecide } from "../permissions.js";

/**
 * Make the menu. It closes when an item is chosen, on Escape, and when it loses the focus.
 *
 * @param {Child[]} items buttons and links
 */
export function moreMenu(items) {
  const summary = make("summary", { class: "button quiet" }, t("more"));
  const close = () => menu.removeAttribute("open");
  /** @type {HTMLDetailsElement} */
  const menu = make(
    "details",
    {
      class: "more",
      onclick: (/** @type {Event & { target: Element }} */ { target }) => target.closest("button, a") && close(),
      onfocusout: (/** @type {FocusEvent} */ { relatedTarget }) =>
        relatedTarget !== null && !menu.contains(/** @type {Node} */ (relatedTarget)) && close(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Escape" && menu.open) {
          event.preventDefault();
          event.stopPropagation();
          close();
          summary.focus();
        }
      },
    },
    summary,
    make("div", { class: "menu" }, items),
  );
  return menu;
}

/**
 * Make a red button for each destructive decision that the member of the team may make.
 *
 * @param {(decision: "ban" | "delete") => unknown} decide
 * @param {Array<"ban" | "delete">} decisions
 */
export function destructiveButtons(decide, decisions = ["ban", "delete"]) {
  return decisions
    .filter((decision) => mayDecide(decision))
    .map((decision) => button(t("opens", { what: t(`do_${decision}`) }), () => decide(decision), "plain bad"));
}
