// Banned users, with the reason and the end of each ban.

import { make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { badge, pendingBadge, timeElement, userLink } from "../badges.js";
import { changeBan, decideFor, decisionKeys, selectionButtons } from "../decisions/actions.js";
import { Listing } from "../table/listing.js";
import { selectionBar } from "../table/selection-bar.js";
import { Table } from "../table/table.js";
import { keepUpToDate, loadUsers } from "./users.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */

/** @type {LaterView} */
export const bansView = {
  render(context, query) {
    const table = new Table({
      label: "view_bans",
      keyOf: ({ username }) => username,
      rowLabel: ({ username }) => username,
      extraState: ({ username }) => context.pendingFor(username)?.decision,
      columns: columnsFor(context),
    });
    const decide = (/** @type {DecisionName} */ decision) => decideFor(context, decision, table.targets);
    const change = () => table.current && changeBan(context, table.current);
    const listing = new Listing(context, query, {
      fields: [{ name: "search", label: "search_users", type: "search" }],
      table,
      load: (values, place) => loadUsers(context.api, { ...values, status: "banned" }, place),
      countText: "bans_count",
      emptyText: "bans_none",
      actions: selectionBar(context, table, selectionButtons(context, table, ["unban"], decide)),
    });
    context.addKeys({ ...decisionKeys(["unban"], decide), c: { label: "key_change_ban", action: change } });
    keepUpToDate(context, listing);
    return listing.render();
  },
};

/**
 * @param {ViewContext} context
 * @returns {import("../table/table.js").Column<ListedUser>[]}
 */
function columnsFor(context) {
  return [
    {
      title: "name",
      kind: "main",
      render: ({ username }) => [userLink(context, username), pendingBadge(context, username)],
    },
    { title: "reason", render: ({ reason }) => reason && make("span", { class: "user-text" }, reason) },
    {
      title: "since",
      isNumber: true,
      render: ({ reviewedAt, reviewedBy }) => [
        timeElement(reviewedAt),
        make("span", { class: "secondary" }, reviewedBy ?? ""),
      ],
    },
    {
      title: "end",
      isNumber: true,
      render: ({ banExpiresAt }) => timeElement(banExpiresAt, badge(t("end_never"), "bad")),
    },
    { title: "acts", kind: "bare", render: (user) => renderRowActions(context, user) },
  ];
}

/**
 * @param {ViewContext} context
 * @param {ListedUser} user
 */
function renderRowActions(context, user) {
  const action = (/** @type {string} */ name, /** @type {() => unknown} */ onclick) => {
    const label = `${t(name)}: ${user.username}`;
    return make("button", { type: "button", class: "plain", "aria-label": label, onclick }, t(name));
  };
  return make(
    "div",
    { class: "row-actions" },
    action("change_ban", () => changeBan(context, user)),
    action("do_unban", () => decideFor(context, "unban", [user])),
  );
}
