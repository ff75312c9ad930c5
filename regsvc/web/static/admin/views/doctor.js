// The doctor's findings: what is wrong or risky about this installation, and what to change where.

import { asRefusal } from "../../shared/api.js";
import { button, make, replaceContent } from "../../shared/dom.js";
import { language, t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { badge, timeElement } from "../badges.js";
import { labelFor } from "../phrases.js";

/** @typedef {Checkup["findings"][number]} Finding */

/** @type {Array<Finding["severity"]>} */
const SEVERITIES = ["broken", "risky"];
/** @type {Record<string, import("../badges.js").Kind>} */
const KINDS = { broken: "bad", risky: "wait", fine: "good" };

/** @type {LaterView} */
export const doctorView = {
  async render(context) {
    const container = make("div", { class: "doctor" });
    const check = () => checkAgain(context, container, again);
    const again = button(t("doctor_again"), check, "quiet");
    show(container, await context.api.get("admin/doctor"));
    // not before, or the first answer might replace that of the key
    context.addKeys({ l: { label: "doctor_again", action: check } });
    return [
      make("p", { class: "quiet-text" }, t("doctor_about")),
      make("div", { class: "row-actions" }, again),
      container,
    ];
  },
};

/**
 * @param {import("../view-context.js").ViewContext} context
 * @param {HTMLElement} container
 * @param {HTMLButtonElement} again
 */
async function checkAgain(context, container, again) {
  if (again.getAttribute("aria-disabled") === "true") {
    return;
  }
  again.setAttribute("aria-disabled", "true");
  notice.show(t("loading"));
  try {
    const checkup = await context.api.get("admin/doctor", { fresh: "true" });
    show(container, checkup);
    notice.show(labelFor("verdict", checkup.verdict), "spoken"); // the rest is long
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  } finally {
    again.removeAttribute("aria-disabled");
  }
}

/**
 * @param {HTMLElement} container
 * @param {Checkup} checkup
 */
function show(container, { language: spoken, verdict, findings, notExamined, checkedAt }) {
  const checked = make("span", { class: "quiet-text" }, t("doctor_looked"), " ", timeElement(checkedAt));
  replaceContent(
    container,
    make("p", { class: "verdict" }, badge(labelFor("verdict", verdict), KINDS[verdict]), " ", checked),
    SEVERITIES.map((severity) =>
      renderGroup(
        severity,
        findings.filter((finding) => finding.severity === severity),
        spoken,
      ),
    ),
    notExamined.length > 0 && [
      make("h3", {}, t("doctor_not_examined")),
      make(
        "ul",
        { lang: spoken },
        notExamined.map((reason) => make("li", {}, reason)),
      ),
    ],
  );
}

/**
 * @param {string} severity
 * @param {Finding[]} findings
 * @param {string} spoken Language of the findings, which screen readers should know.
 */
function renderGroup(severity, findings, spoken) {
  return (
    findings.length > 0 && [
      make("h3", {}, t(`doctor_${severity}`, { count: findings.length })),
      make("ul", { class: "findings", lang: spoken }, groupAlike(findings).map(renderAlike)),
    ]
  );
}

/**
 * Return the findings in groups with the same reason and advice.
 * @param {Finding[]} findings
 */
function groupAlike(findings) {
  /** @type {Map<string, Finding[]>} */
  const groups = new Map();
  for (const finding of findings) {
    const shared = JSON.stringify([finding.id, finding.why, finding.do]);
    groups.set(shared, [...(groups.get(shared) ?? []), finding]);
  }
  return [...groups.values()];
}

/** @param {Finding[]} findings */
function renderAlike(findings) {
  const { id, severity, why, do: advice } = findings[0];
  return make(
    "li",
    { "data-kind": KINDS[severity] },
    findings.map(({ title }) => make("h4", {}, title)),
    make("p", {}, why),
    make("p", {}, make("strong", { lang: language }, t("doctor_do")), " ", advice),
    [...new Set(findings.map(({ where }) => where))].map((where) =>
      make("p", { class: "where" }, make("code", {}, where), " ", make("span", { class: "secondary" }, id)),
    ),
  );
}
