// The bar about the selection in a table: how many rows are selected, and what can be done with them.

import { make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { clearOnceRead } from "../../shared/notice.js";
import { formatNumber } from "../phrases.js";
import { leaveRoom } from "../room-below.js";

/**
 * @param {import("../view-context.js").ViewContext} context
 * @param {import("./table.js").Table<any>} table
 * @param {HTMLButtonElement[]} actions
 */
export function selectionBar(context, table, actions) {
  const count = make("span", { class: "counted" });
  const clear = make(
    "button",
    { type: "button", class: "plain", onclick: () => table.selectAll(false) },
    t("choose_none"),
  );
  const status = make("p", { class: "visually-hidden", role: "status" });
  const bar = make(
    "div",
    { class: "selection-bar", role: "group", "aria-label": t("chosen_acts"), hidden: true },
    count,
    make("div", { class: "row-actions" }, actions),
    clear,
  );
  leaveRoom(bar, "--selection");
  context.effect(() => {
    const { size } = table.selectedKeys.value;
    const text = t("chosen", { count: formatNumber(size) });
    bar.hidden = size === 0;
    count.textContent = text;
    status.textContent = size ? text : "";
    clearOnceRead(status);
  });
  return [bar, status];
}
