// The entries of the audit log, in words.

import { make } from "../shared/dom.js";
import { formatTime, hasText, t } from "../shared/i18n.js";
import { formatNumber, labelFor } from "./phrases.js";

/** Every action that the log records. */
export const ACTIONS = [
  ...["user.registered", "user.approved", "user.rejected", "user.banned", "user.unbanned", "user.reopened"],
  ...["user.deleted", "user.undone"],
  ...["user.adopted", "user.password_changed", "user.password_link_created", "user.email_changed"],
  ...["user.answers_changed"],
  ...["user.totp_enabled", "user.totp_disabled", "user.recovery_codes_replaced", "user.recovery_code_used"],
  ...["user.session_ended", "user.role_changed", "user.rights_ended"],
  ...["membership.set", "membership.ended", "membership.renewed", "membership.asked", "membership.declined"],
  ...["user.note_added", "user.asked"],
  ...["user.question_answered", "user.answer_judged", "settings.changed"],
  ...["token.created", "token.revoked", "invitation.created", "invitation.revoked"],
  ...["user.logged_in", "user.login_failed", "user.totp_failed", "user.logged_out"],
  ...["admin.logged_in", "admin.denied", "chat.linked", "chat.unlinked"],
  ...["team_chat.linked", "team_chat.unlinked"],
  ...["sync.run", "sync.conflict", "sync.player_removed", "sync.player_returned", "sync.player_locked"],
  ...["sync.edit_refused", "sync.braked", "allowlist.run", "allowlist.taken_off"],
  ...["mail.resent", "user.imported", "data.exported", "data.purged", "undo.run"],
];

const SYNC_ACTIONS = ["sync.run", "sync.braked", "allowlist.run"];
const COUNTS = ["adopted", "provisioned", "updated", "locked", "restored", "removed", "edited", "passwords"];
const LIST_COUNTS = ["added", "approved", "takenOff", "heldBack"];

/** @param {string} action */
export function actionName(action) {
  return labelFor("action", action.replace(".", "_"));
}

/**
 * List the counts of a sync run that are not zero: "12 adopted, 1 locked".
 *
 * @param {Record<string, any>} counts
 */
export function describeCounts(counts) {
  return [...COUNTS, ...LIST_COUNTS]
    .filter((name) => counts[name] > 0)
    .map((name) => t(`count_${snakeCase(name)}`, { count: formatNumber(counts[name]) }))
    .join(t("between_names"));
}

/**
 * Render the details of an entry: the reason in full, everything else in one line.
 *
 * @param {string} action
 * @param {Record<string, unknown>} detail
 * @returns {Child}
 */
export function renderDetail(action, detail) {
  if (SYNC_ACTIONS.includes(action)) {
    return describeCounts(detail);
  }
  // for programs: ids, and what an undo gives back
  const {
    reason,
    reviews: _reviews,
    entries: _entries,
    review: _review,
    membershipBefore: _before,
    ...others
  } = detail;
  const facts = Object.entries(others).map(([name, value]) => `${factName(name)}: ${formatValue(name, value)}`);
  return [
    Boolean(reason) && make("span", { class: "user-text" }, String(reason)),
    facts.length > 0 && make("span", { class: "secondary" }, facts.join(" · ")),
  ];
}

/** @param {string} name */
function factName(name) {
  return labelFor("fact", snakeCase(name));
}

/** @param {string} name */
function snakeCase(name) {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function formatValue(name, value) {
  if (typeof value === "number" && (name.endsWith("At") || name === "until")) {
    return formatTime(value);
  }
  if (typeof value === "string") {
    const key = `${["cause", "because"].includes(name) ? name : "status"}_${value}`;
    return hasText(key) ? t(key) : value;
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
