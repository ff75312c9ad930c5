// Who is banned, why, and until when.

import { button, make } from "../../shared/dom.js";
import { word } from "../../shared/i18n.js";
import { changeBan, decideAbout } from "../decisions/actions.js";
import { badge, userLink, waitingLabel, when } from "../badges.js";
import { choiceBar, Listing } from "../table/listing.js";
import { Table } from "../table/table.js";
import { askUsers, followUsers } from "./users.js";

export const bansView = {
  id: "bans",
  title: "view_bans",

  draw(office, query) {
    const table = new Table({
      label: "view_bans",
      keyOf: ({ username }) => username,
      nameOf: ({ username }) => username,
      marks: ({ username }) => office.waiting(username)?.decision,
      columns: columnsFor(office),
    });
    const unban = () => decideAbout(office, "unban", table.meant);
    const change = () => table.current && changeBan(office, table.current);
    const listing = new Listing(office, query, {
      fields: [{ name: "search", label: "search_users", type: "search" }],
      table,
      ask: (values, place) => askUsers(office.api, { ...values, status: "banned" }, place),
      counted: "bans_count",
      none: "bans_none",
      beside: choiceBar(table, [button(word("do_unban"), unban, "quiet")]),
    });
    office.keys({ e: { word: "key_unban", action: unban }, c: { word: "key_change_ban", action: change } });
    followUsers(office, listing);
    return listing.draw();
  },
};

function columnsFor(office) {
  return [
    { title: "name", kind: "main", of: ({ username }) => [userLink(office, username), waitingLabel(office, username)] },
    { title: "reason", of: ({ reason }) => reason && make("span", { class: "words" }, reason) },
    { title: "since", of: ({ reviewedAt, reviewedBy }) => [when(reviewedAt), make("span", { class: "beside" }, reviewedBy ?? "")] },
    { title: "end", of: ({ banExpiresAt }) => when(banExpiresAt, badge(word("end_never"), "bad")) },
    { title: "acts", kind: "bare", of: (user) => actsFor(office, user) },
  ];
}

function actsFor(office, user) {
  const act = (name, label, onclick) => make("button", { type: "button", class: "plain", "aria-label": `${word(name)}: ${label}`, onclick }, word(name));
  return make(
    "div",
    { class: "acts" },
    act("change_ban", user.username, () => changeBan(office, user)),
    act("do_unban", user.username, () => decideAbout(office, "unban", [user])),
  );
}
