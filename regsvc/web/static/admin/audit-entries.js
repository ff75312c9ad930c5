// What stands in the audit log, in words.

import { make } from "../shared/dom.js";
import { hasWord, moment, word } from "../shared/i18n.js";
import { named } from "./badges.js";
import { tellCounts } from "./views/sync/report.js";

/** Everything that leaves an entry. */
export const ACTIONS = [
  ...["user.registered", "user.approved", "user.rejected", "user.banned", "user.unbanned", "user.deleted", "user.adopted"],
  ...["user.password_changed", "user.email_changed", "user.logged_in", "user.login_failed", "user.logged_out"],
  ...["admin.logged_in", "admin.denied", "chat.linked", "chat.unlinked"],
  ...["sync.run", "sync.conflict", "sync.player_removed", "sync.player_returned", "sync.player_locked", "sync.edit_refused", "sync.braked"],
  ...["mail.resent", "user.imported", "data.exported", "data.purged"],
];

const OF_SYNC = ["sync.run", "sync.braked"];

export function nameOfAction(action) {
  return named("action", action.replace(".", "_"));
}

/** The facts of an entry: reasons whole, the rest in a line. */
export function tellDetail(action, detail) {
  if (OF_SYNC.includes(action)) {
    return tellCounts(detail);
  }
  const { reason, ...others } = detail;
  const facts = Object.entries(others).map(([name, value]) => `${nameOfFact(name)}: ${tell(name, value)}`);
  return [reason && make("span", { class: "words" }, String(reason)), facts.length > 0 && make("span", { class: "beside" }, facts.join(" · "))];
}

function nameOfFact(name) {
  return named("fact", name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

function tell(name, value) {
  if (typeof value === "number" && name.endsWith("At")) {
    return moment(value);
  }
  if (typeof value === "string") {
    return hasWord(`status_${value}`) ? word(`status_${value}`) : value;
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
