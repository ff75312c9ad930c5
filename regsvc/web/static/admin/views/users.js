// All users: looked for, filtered, sorted, and decided about many at a time.

import { make } from "../../shared/dom.js";
import { word } from "../../shared/i18n.js";
import { decideAbout, decisionButtons, decisionKeys, USER_EVENTS } from "../decisions/actions.js";
import { named, playerLabel, statusLabel, userLink, waitingLabel, when } from "../badges.js";
import { choiceBar, Listing } from "../table/listing.js";
import { Table } from "../table/table.js";

const DECISIONS = ["approve", "reject", "ban", "delete"];
const STATUSES = ["pending", "approved", "rejected", "banned"];
const PLAYER_STATES = ["synced", "absent", "locked", "conflict", "returned", "pending"];
const SORTS = ["newest", "oldest", "name"];
const SIZE = 50;

export const usersView = {
  id: "users",
  title: "view_users",

  draw(office, query) {
    const table = new Table({
      label: "view_users",
      keyOf: ({ username }) => username,
      nameOf: ({ username }) => username,
      marks: ({ username }) => office.waiting(username)?.decision,
      columns: columnsFor(office),
    });
    const decide = (decision) => decideAbout(office, decision, table.meant);
    const listing = new Listing(office, query, {
      fields: fieldsFor(office.config),
      table,
      ask: (values, place) => askUsers(office.api, values, place),
      counted: "users_count",
      none: "users_none",
      beside: choiceBar(table, decisionButtons(DECISIONS, decide)),
    });
    office.keys(decisionKeys(DECISIONS, decide));
    followUsers(office, listing);
    return listing.draw();
  },
};

/** `{rows, pagination, nextCursor}`; `place`: `{page}` or, however many there are, `{after}`. Throws a Refusal. */
export async function askUsers(api, values, place) {
  const { users, pagination, nextCursor } = await api.get("admin/users", { sort: "newest", ...values, ...place, size: SIZE });
  return { rows: users, pagination, nextCursor };
}

/** The list goes on with what happens and with what is decided. */
export function followUsers(office, listing) {
  office.onEvent([...USER_EVENTS, "sync_finished", "missed"], () => listing.refreshSoon());
  office.onDecision((what, entry) => {
    if (what === "added") {
      entry.usernames.forEach((username) => listing.table.keys.delete(username));
    }
    listing.table.redraw();
    if (what === "sent" || what === "refused") {
      listing.refreshSoon();
    }
  });
}

function fieldsFor({ authme }) {
  const player = { name: "plugin", label: "in_the_game", type: "select", options: choices("player", PLAYER_STATES) };
  return [
    { name: "search", label: "search_users", type: "search" },
    { name: "status", label: "status", type: "select", options: choices("status", STATUSES) },
    ...(authme.enabled ? [player] : []),
    { name: "sort", label: "sort", type: "select", options: SORTS.map((value) => ({ value, text: named("sort", value) })) },
  ];
}

function choices(group, values) {
  return [{ value: "", text: word("any") }, ...values.map((value) => ({ value, text: named(group, value) }))];
}

function columnsFor(office) {
  const columns = [
    { title: "name", kind: "main", of: ({ username, email }) => [userLink(office, username), email && make("span", { class: "beside" }, email)] },
    { title: "status", of: ({ username, status }) => [statusLabel(status), " ", waitingLabel(office, username)] },
    { title: "in_the_game", of: ({ plugin }) => playerLabel(plugin) },
    { title: "registered", of: ({ regTime }) => when(regTime) },
    { title: "last_login", of: ({ lastLogin }) => when(lastLogin) },
  ];
  return office.config.authme.enabled ? columns : columns.filter(({ title }) => title !== "in_the_game");
}
