// What is wrong or risky about this installation, and what to change where.

import { Refusal } from "../../shared/api.js";
import { button, fillWith, make } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { language, word } from "../../shared/i18n.js";
import { badge, named, when } from "../badges.js";

const SEVERITIES = ["broken", "risky"];
const KINDS = { broken: "bad", risky: "wait", fine: "good" };

export const doctorView = {
  id: "doctor",
  title: "view_doctor",

  async draw(office) {
    const place = make("div", { class: "doctor", "aria-live": "polite" });
    const look = () => lookAgain(office, place, again);
    const again = button(word("doctor_again"), look, "quiet");
    office.keys({ l: { word: "doctor_again", action: look } });
    show(place, await office.api.get("admin/doctor"));
    return [make("p", { class: "quiet-text" }, word("doctor_about")), make("div", { class: "acts" }, again), place];
  },
};

async function lookAgain(office, place, again) {
  if (again.getAttribute("aria-disabled") === "true") {
    return;
  }
  again.setAttribute("aria-disabled", "true");
  notice.say(word("loading"));
  try {
    show(place, await office.api.get("admin/doctor", { fresh: "true" }));
    notice.forget(word("loading"));
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) {
      throw refusal;
    }
    notice.refuse(refusal);
  } finally {
    again.removeAttribute("aria-disabled");
  }
}

function show(place, { verdict, findings, notExamined, checkedAt }) {
  fillWith(
    place,
    make("p", { class: "verdict" }, badge(named("verdict", verdict), KINDS[verdict]), " ", make("span", { class: "quiet-text" }, word("doctor_looked"), " ", when(checkedAt))),
    SEVERITIES.map((severity) => groupOf(severity, findings.filter((finding) => finding.severity === severity))),
    notExamined.length > 0 && [
      make("h3", {}, word("doctor_not_examined")),
      make("ul", english(), notExamined.map((reason) => make("li", {}, reason))),
    ],
  );
}

function groupOf(severity, findings) {
  return findings.length > 0 && [make("h3", {}, word(`doctor_${severity}`, { count: findings.length })), make("ul", { class: "findings" }, findings.map(findingOf))];
}

function findingOf({ id, severity, title, why, do: advice, where }) {
  return make(
    "li",
    { "data-kind": KINDS[severity], ...english() },
    make("h4", {}, title),
    make("p", {}, why),
    make("p", {}, make("strong", { lang: language }, word("doctor_do")), " ", advice),
    make("p", { class: "where" }, make("code", {}, where), " ", make("span", { class: "beside" }, id)),
  );
}

/** The doctor's sentences are English in every language; who reads them aloud should know. */
function english() {
  return language === "en" ? {} : { lang: "en" };
}
