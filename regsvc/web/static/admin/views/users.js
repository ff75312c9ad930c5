// All users: searched, filtered and sorted, with decisions about many at a time.

import { make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { untracked } from "../../shared/signal.js";
import { agoElement, badge, listedBadge, pendingBadge, playerBadge, statusBadge, userLink } from "../badges.js";
import { decideFor, decisionKeys, selectionButtons } from "../decisions/actions.js";
import {
  membershipActions,
  membershipBadges,
  membershipFilter,
  membershipKeys,
  membershipSelectionButtons,
} from "../decisions/membership.js";
import { STATUSES, USER_EVENTS } from "../decisions/transitions.js";
import { labelFor } from "../phrases.js";
import { Listing } from "../table/listing.js";
import { selectionBar } from "../table/selection-bar.js";
import { Table } from "../table/table.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */

/** @type {DecisionName[]} */
const BULK_DECISIONS = ["approve", "reject", "ban", "delete"];
const PLAYER_STATES = ["synced", "absent", "locked", "conflict", "returned", "pending"];
const LISTED_STATES = ["listed", "waiting", "removed", "conflict", "absent"];
const SORTS = ["newest", "oldest", "name"];
const PAGE_SIZE = 50;

/** @type {LaterView} */
export const usersView = {
  render(context, query) {
    const table = new Table({
      label: "view_users",
      keyOf: ({ username }) => username,
      rowLabel: ({ username }) => username,
      extraState: ({ username }) => context.pendingFor(username)?.decision,
      columns: columnsFor(context),
    });
    const decide = (/** @type {DecisionName} */ decision) => decideFor(context, decision, table.targets);
    const membership = membershipActions(context, () => table.targets);
    const [approve, ...others] = selectionButtons(context, table, BULK_DECISIONS, decide);
    const forMembers = membershipSelectionButtons(context, table, membership);
    const listing = new Listing(context, query, {
      fields: fieldsFor(context.config),
      table,
      load: (values, place) => loadUsers(context.api, values, place),
      countText: "users_count",
      emptyText: "users_none",
      actions: selectionBar(context, table, [approve, ...forMembers, ...others]),
    });
    context.addKeys({ ...decisionKeys(BULK_DECISIONS, decide), ...membershipKeys(membership) });
    keepUpToDate(context, listing);
    return listing.render();
  },
};

/**
 * Load a page of users; `place` is `{page}` or, for long lists, `{after}`. Throws a Refusal.
 *
 * @param {import("../../shared/api.js").Api} api
 * @param {Query} values
 * @param {Query} place
 * @returns {Promise<RowsPage<ListedUser>>}
 */
export async function loadUsers(api, values, place) {
  const query = { sort: "newest", ...values, ...place, size: PAGE_SIZE };
  const { users, pagination, nextCursor } = await api.get("admin/users", query);
  return { rows: users, pagination, nextCursor };
}

/**
 * Keep a list of users up to date with events and with pending decisions.
 *
 * @param {ViewContext} context
 * @param {Listing<ListedUser>} listing
 */
export function keepUpToDate(context, listing) {
  const { table } = listing;
  const others = ["user_membership_changed", "sync_finished", "missed"];
  context.onEvent([...USER_EVENTS, ...others], () => listing.refresh.soon());
  context.effect(() => {
    void context.shell.pending.entries;
    untracked(() => table.refresh());
  });
  context.onDecision((change, entry) => {
    if (change === "added") {
      entry?.usernames.forEach((username) => table.select(username, false));
    }
    if (change === "sent" || change === "refused") {
      listing.refresh.soon();
    }
  });
}

/**
 * @param {Config} config
 * @returns {import("../table/filters.js").FilterField[]}
 */
function fieldsFor({ gates }) {
  /** @type {import("../table/filters.js").FilterField} */
  const player = { name: "plugin", label: "in_the_game", type: "select", options: choices("player", PLAYER_STATES) };
  /** @type {import("../table/filters.js").FilterField} */
  const listed = { name: "allowlist", label: "allowlist", type: "select", options: choices("listed", LISTED_STATES) };
  const sorts = SORTS.map((value) => ({ value, text: labelFor("sort", value) }));
  return [
    { name: "search", label: "search_users", type: "search" },
    { name: "status", label: "status", type: "select", options: choices("status", STATUSES) },
    membershipFilter(),
    ...(gates.includes("authme") ? [player] : []),
    ...(gates.includes("allowlist") ? [listed] : []),
    { name: "sort", label: "sort", type: "select", options: sorts },
  ];
}

/**
 * @param {string} group
 * @param {string[]} values
 */
function choices(group, values) {
  return [{ value: "", text: t("any") }, ...values.map((value) => ({ value, text: labelFor(group, value) }))];
}

/**
 * @param {ViewContext} context
 * @returns {import("../table/table.js").Column<ListedUser>[]}
 */
function columnsFor(context) {
  /** @type {import("../table/table.js").Column<ListedUser>[]} */
  const columns = [
    {
      title: "name",
      kind: "main",
      render: ({ username, email, isOperator }) => [
        userLink(context, username),
        isOperator && [" ", badge(t("operator"))],
        email && make("span", { class: "secondary" }, email),
      ],
    },
    {
      title: "status",
      render: (user) => [[statusBadge(user.status), " "], membershipBadges(user), pendingBadge(context, user.username)],
    },
    {
      title: "in_the_game",
      render: ({ plugin, allowlist }) => {
        const badges = [playerBadge(plugin), listedBadge(allowlist)].filter((found) => found !== "");
        return badges.length > 0 && badges.flatMap((found) => [found, " "]);
      },
    },
    { title: "registered", isNumber: true, render: ({ regTime }) => agoElement(regTime) },
    { title: "last_login", isNumber: true, render: ({ lastLogin }) => agoElement(lastLogin) },
  ];
  return context.config.gates.length > 0 ? columns : columns.filter(({ title }) => title !== "in_the_game");
}
