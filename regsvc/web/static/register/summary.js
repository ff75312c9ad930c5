// What the visitor has given in the steps before the last one, above its button, with a way back to each.

import { button, make, uniqueId } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

/** @typedef {import("./flow.js").Flow} Flow */

const LEAST_STEPS = 2; // before the last one: with fewer, what was given is a button away

/**
 * Render the summary; null where it would repeat what everybody remembers.
 *
 * @param {Flow} flow at its last step
 */
export function renderSummary(flow) {
  const before = flow.steps.slice(0, -1);
  if (before.length < LEAST_STEPS) {
    return null;
  }
  const id = uniqueId("summary");
  return make(
    "section",
    { class: "summary", "aria-labelledby": id },
    make("h3", { id }, t("summary")),
    make(
      "dl",
      {},
      before.flatMap((step) => (step.given?.(flow) ?? []).map(([name, value]) => renderGiven(flow, step, name, value))),
    ),
  );
}

/**
 * @param {Flow} flow
 * @param {Step} step
 * @param {string} name
 * @param {string} value
 */
function renderGiven(flow, step, name, value) {
  const change = button(t("change"), () => flow.change(step), "plain");
  change.setAttribute("aria-label", t("change_what", { name }));
  return make("div", {}, make("dt", {}, name), make("dd", {}, make("bdi", {}, value), change));
}
