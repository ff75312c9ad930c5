// The audit log: who did what to whom, newest first.

import { button, link, make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { ACTIONS, actionName, renderDetail } from "../audit-entries.js";
import { agoElement, userLink } from "../badges.js";
import { USER_EVENTS } from "../decisions/transitions.js";
import { may } from "../permissions.js";
import { Listing } from "../table/listing.js";
import { Table } from "../table/table.js";
import { askUndo } from "../undo-dialog.js";

const PAGE_SIZE = 50;

/** @typedef {import("../view-context.js").ViewContext} ViewContext */

/** @type {LaterView} */
export const auditsView = {
  render(context, query) {
    const table = new Table({ label: "view_audits", keyOf: ({ id }) => id, columns: columnsFor(context) });
    const actions = ACTIONS.map((value) => ({ value, text: actionName(value) }));
    const undo = () => askUndo(context, listing.filters.values.operator ?? "", () => listing.refresh.soon());
    /** @type {Listing<Audit>} */
    const listing = new Listing(context, query, {
      fields: [
        {
          name: "action",
          label: "action",
          type: "select",
          options: [{ value: "", text: t("audits_decisions") }, { value: "any", text: t("any") }, ...actions],
        },
        { name: "operator", label: "operator", type: "text", placeholder: "match_whole" },
        { name: "target", label: "about", type: "text", placeholder: "match_whole" },
        { name: "from", label: "from_day", type: "date" },
        { name: "to", label: "to_day", type: "date" },
      ],
      table,
      load: (values, { page }) => load(context.api, values, page),
      actions: may("team.manage") && make("div", { class: "buttons" }, button(t("undo_decisions"), undo, "quiet")),
      countText: "audits_count",
      emptyText: "audits_none",
    });
    context.onEvent([...USER_EVENTS, "sync_finished", "missed"], () => listing.refresh.soon());
    return listing.render();
  },
};

/**
 * @param {import("../../shared/api.js").Api} api
 * @param {Record<string, string>} values
 * @param {Query[string]} page
 */
async function load(api, { from, to, action = "decisions", ...others }, page) {
  const values = { ...others, action: action === "any" ? null : action };
  const range = { from: startOfDay(from, 0), to: endOfDay(to) };
  const { audits, pagination } = await api.get("admin/audits", { ...values, ...range, page, size: PAGE_SIZE });
  return { rows: audits, pagination };
}

/**
 * Return local midnight (epoch milliseconds) so many days after a date such as "2026-01-31"; null for no date.
 *
 * @param {string | undefined} date
 * @param {number} daysLater
 */
function startOfDay(date, daysLater) {
  if (!/^\d{4}-\d\d-\d\d$/.test(date ?? "")) {
    return null;
  }
  const [year, month, day] = (date ?? "").split("-").map(Number);
  return Math.max(0, new Date(year, month - 1, day + daysLater).getTime());
}

/** @param {string | undefined} date */
function endOfDay(date) {
  const next = startOfDay(date, 1);
  return next === null ? null : next - 1;
}

/**
 * @param {ViewContext} context
 * @returns {import("../table/table.js").Column<Audit>[]}
 */
function columnsFor(context) {
  return [
    { title: "action", kind: "main", render: ({ action }) => actionName(action) },
    {
      title: "about",
      render: ({ target, operator }) => target !== null && target !== operator && userLink(context, target),
    },
    { title: "operator", render: ({ operator }) => make("bdi", {}, operator) },
    {
      title: "detail",
      kind: "wide",
      render: ({ action, detail }) => detail !== null && renderDetail(action, detail),
    },
    { title: "address", render: ({ ip }) => ip && link(context.hashFor("users", { search: ip }), ip) },
    { title: "moment", kind: "second", isNumber: true, render: ({ timestamp }) => agoElement(timestamp) },
  ];
}
