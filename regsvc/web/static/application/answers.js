// The applicant's answers.

import { definitionList, make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

/** @param {Application} application */
export function answersSection({ answers }) {
  if (answers === null) {
    return null;
  }
  const entries = answers.map(({ question, answer }) => [question, answer || t("answer_skipped")]);
  return make("details", {}, make("summary", {}, t("answers_title")), definitionList(/** @type {any} */ (entries)));
}
