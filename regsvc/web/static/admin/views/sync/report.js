// What a run of the sync did, or would do, in words.

import { make } from "../../../shared/dom.js";
import { facts } from "../../../shared/notice.js";
import { word } from "../../../shared/i18n.js";
import { badge, named, numeral, userLink } from "../../badges.js";

const COUNTS = ["adopted", "provisioned", "updated", "locked", "restored", "removed", "edited"];
const MOST = 100; // lines; of more conflicts or errors the rest is counted

/** The numbers that are not nothing: "12 adopted, 1 locked". */
export function tellCounts(counts) {
  const told = COUNTS.filter((name) => counts[name] > 0).map((name) => word(`count_${name}`, { count: numeral(counts[name]) }));
  return told.join(word("between_names"));
}

export function reportOf(office, { message, report, isPlan }) {
  const { scanned, durationMs, conflicts, errors, braked } = report;
  const changes = tellCounts(report);
  return [
    make("h3", {}, word(isPlan ? "sync_would" : "sync_did")),
    make("p", { class: "notice", "data-kind": braked || errors.length ? "bad" : "good" }, message),
    facts([
      [word("sync_changes"), changes || word("sync_nothing")],
      [word("sync_scanned"), numeral(scanned)],
      [word("sync_took"), word("milliseconds", { count: numeral(durationMs) })],
    ]),
    braked !== null && brakeOf(braked),
    listOf("sync_errors", errors, ({ username, error }) => [username === null ? word("sync_everything") : userLink(office, username), ": ", error]),
    listOf("sync_conflicts", conflicts, ({ username, field, kept }) => [userLink(office, username), ": ", named("field", field), " ", badge(named("kept", kept))]),
  ];
}

/** What was left out, why, and how to let it happen. */
function brakeOf({ limit, ...counts }) {
  return make(
    "div",
    { class: "brake" },
    make("h4", {}, word("brake_title")),
    make("p", {}, word("brake_left_out", { what: tellCounts(counts), limit })),
    make("p", {}, word("brake_means")),
    make("p", {}, word("brake_allow")),
    make("p", {}, make("code", {}, "companion sync --allow-mass-changes")),
    make("p", { class: "quiet-text" }, word("brake_limit")),
  );
}

function listOf(title, entries, tell) {
  const rest = entries.length - MOST;
  return (
    entries.length > 0 && [
      make("h4", {}, word(title, { count: numeral(entries.length) })),
      make("ul", { class: "lines" }, entries.slice(0, MOST).map((entry) => make("li", {}, tell(entry)))),
      rest > 0 && make("p", { class: "quiet-text" }, word("and_more", { count: numeral(rest) })),
    ]
  );
}
