// The audit log: who did what to whom, newest first.

import { word } from "../../shared/i18n.js";
import { ACTIONS, nameOfAction, tellDetail } from "../audit-entries.js";
import { USER_EVENTS } from "../decisions/actions.js";
import { userLink, when } from "../badges.js";
import { Listing } from "../table/listing.js";
import { Table } from "../table/table.js";

const SIZE = 50;

export const auditsView = {
  id: "audits",
  title: "view_audits",

  draw(office, query) {
    const table = new Table({ label: "view_audits", keyOf: ({ id }) => id, columns: columnsFor(office) });
    const listing = new Listing(office, query, {
      fields: [
        { name: "action", label: "action", type: "select", options: [{ value: "", text: word("any") }, ...ACTIONS.map((value) => ({ value, text: nameOfAction(value) }))] },
        { name: "operator", label: "operator", type: "text" },
        { name: "target", label: "about", type: "text" },
        { name: "from", label: "from_day", type: "date" },
        { name: "to", label: "to_day", type: "date" },
      ],
      table,
      ask: (values, { page }) => ask(office.api, values, page),
      counted: "audits_count",
      none: "audits_none",
    });
    office.onEvent([...USER_EVENTS, "sync_finished", "missed"], () => listing.refreshSoon());
    return listing.draw();
  },
};

async function ask(api, { from, to, ...values }, page) {
  const range = { from: startOf(from, 0), to: endOf(to) };
  const { audits, pagination } = await api.get("admin/audits", { ...values, ...range, page, size: SIZE });
  return { rows: audits, pagination };
}

/** Midnight here (epoch milliseconds) of a day such as "2026-01-31", so many days later; null for none. */
function startOf(day, daysLater) {
  if (!/^\d{4}-\d\d-\d\d$/.test(day ?? "")) {
    return null;
  }
  const [year, month, date] = day.split("-").map(Number);
  return Math.max(0, new Date(year, month - 1, date + daysLater).getTime());
}

function endOf(day) {
  const next = startOf(day, 1);
  return next === null ? null : next - 1;
}

function columnsFor(office) {
  return [
    { title: "action", kind: "main", of: ({ action }) => nameOfAction(action) },
    { title: "about", of: ({ target }) => target !== null && userLink(office, target) },
    { title: "operator", of: ({ operator, target }) => (operator && operator !== target ? operator : "") },
    { title: "detail", kind: "wide", of: ({ action, detail }) => detail !== null && tellDetail(action, detail) },
    { title: "address", of: ({ ip }) => ip },
    { title: "moment", kind: "second", of: ({ timestamp }) => when(timestamp) },
  ];
}
