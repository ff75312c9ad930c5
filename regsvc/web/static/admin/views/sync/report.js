// The report of a sync run or of a preview.

import { definitionList, make } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";
import { describeCounts } from "../../audit-entries.js";
import { badge, userLink } from "../../badges.js";
import { formatNumber, labelFor } from "../../phrases.js";

const MAX_LINES = 100; // of more conflicts or errors the rest is counted

/**
 * @param {import("../../view-context.js").ViewContext} context
 * @param {{ message: string, report: SyncReport, isPreview: boolean }} result
 */
export function renderReport(context, { message, report, isPreview }) {
  const { scanned, durationMs, conflicts, errors, braked, allowlist } = report;
  const changes = describeCounts(report);
  return [
    make("h3", {}, t(isPreview ? "sync_would" : "sync_did")),
    make("p", { class: "notice", "data-kind": braked || errors.length ? "bad" : "good" }, message),
    definitionList([
      [t("sync_changes"), changes || t("sync_nothing")],
      [t("sync_scanned"), formatNumber(scanned)],
      [t("sync_took"), t("milliseconds", { count: formatNumber(durationMs) })],
    ]),
    braked !== null && renderHeldBack(braked),
    allowlist !== null && renderAllowlist(allowlist),
    renderList("sync_errors", errors, ({ username, error }) => [
      username === null ? t("sync_everything") : userLink(context, username),
      ": ",
      error,
    ]),
    renderList("sync_conflicts", conflicts, ({ username, field, kept }) => [
      userLink(context, username),
      ": ",
      labelFor("field", field),
      " ",
      badge(labelFor("kept", kept)),
    ]),
  ];
}

/**
 * Render what the mass-change guard held back, and how to allow it.
 *
 * @param {NonNullable<SyncReport["braked"]>} heldBack
 */
function renderHeldBack({ limit, days, ...counts }) {
  const what = describeCounts(counts);
  const isPause = days > 0; // then only ends of memberships wait
  return make(
    "div",
    { class: "held-back" },
    make("h4", {}, t(isPause ? "brake_pause_title" : "brake_title")),
    make("p", {}, isPause ? t("brake_pause", { what, days }) : t("brake_left_out", { what, limit })),
    !isPause && make("p", {}, t("brake_means")),
    make("p", {}, t("brake_allow")),
    make("p", {}, make("code", {}, "companion sync --allow-mass-changes")),
    !isPause && make("p", { class: "quiet-text" }, t("brake_limit")),
  );
}

/**
 * Render what was done about the game's allowlist, and what keeps it from being done.
 *
 * @param {NonNullable<SyncReport["allowlist"]>} allowlist
 */
function renderAllowlist({ heldBack, limit, unavailable, doubt, isLoaded, ...counts }) {
  const what = t("count_held_back", { count: formatNumber(heldBack) });
  return [
    make("h4", {}, t("allowlist")),
    make("p", {}, describeCounts(counts) || t("sync_nothing")),
    heldBack > 0 && [
      make("p", {}, t("brake_left_out", { what, limit }), " ", t("brake_allow")),
      make("p", {}, make("code", {}, "companion sync --allow-mass-changes")),
    ],
    unavailable && make("p", { class: "bad" }, unavailable),
    doubt && make("p", { class: "bad" }, t("uuids_in_doubt"), " ", make("bdi", {}, doubt)),
    !isLoaded && make("p", {}, t("needs_restart")),
  ];
}

/**
 * @template Entry
 * @param {string} title
 * @param {Entry[]} entries
 * @param {(entry: Entry) => Child} render
 */
function renderList(title, entries, render) {
  const rest = entries.length - MAX_LINES;
  const lines = entries.slice(0, MAX_LINES).map((entry) => make("li", {}, render(entry)));
  return (
    entries.length > 0 && [
      make("h4", {}, t(title, { count: formatNumber(entries.length) })),
      make("ul", { class: "lines" }, lines),
      rest > 0 && make("p", { class: "quiet-text" }, t("and_more", { count: formatNumber(rest) })),
    ]
  );
}
