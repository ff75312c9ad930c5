// The applicant's answers, which may be edited until they are decided about.

import { asRefusal } from "../shared/api.js";
import { button, definitionList, make, replaceContent } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { answersIn, questionField, showQuestionRefusal } from "../shared/questions.js";

/**
 * @typedef {object} Parts
 * @property {import("../shared/api.js").Api} api
 * @property {Application} application
 * @property {boolean} isOpen whether the answers are shown
 * @property {(application: Application) => void} show the application as it has become
 * @property {(token: string) => unknown} onNewToken
 */

/** @param {Parts} parts */
export function answersSection({ api, application, isOpen, show }) {
  const { answers, canEditAnswers } = application;
  if (answers === null) {
    return null;
  }
  const container = make("div", { class: "section" });
  const showAnswers = () =>
    replaceContent(
      container,
      definitionList(answers.map(({ question, answer }) => [question, answer || t("answer_skipped")])),
      canEditAnswers && button(t("answers_edit"), edit),
    );
  const edit = async () => {
    try {
      const form = await editForm(api, answers, (changed) => {
        showAnswers(); // where nothing has changed, nothing is drawn anew
        show(changed);
      });
      replaceContent(container, form.element, button(t("cancel"), cancel, "plain"));
      form.fields[0]?.focus();
    } catch (error) {
      notice.showRefusal(asRefusal(error));
    }
  };
  const cancel = () => {
    showAnswers();
    container.querySelector("button")?.focus(); // that for editing: the one that was pressed is gone
  };
  showAnswers();
  return make("details", { open: isOpen }, make("summary", {}, t("answers_title")), container);
}

/**
 * Make the form, filled in with what was answered. Throws a Refusal.
 *
 * @param {import("../shared/api.js").Api} api
 * @param {NonNullable<Application["answers"]>} answers
 * @param {(application: Application) => void} onSaved
 */
async function editForm(api, answers, onSaved) {
  const { data } = await api.get("questionnaire/config");
  const given = new Map(answers.map((answer) => [answer.questionId, answer]));
  const fields = data.questions.map((question) => {
    const { answer = "", selectedOptionIds = [] } = given.get(question.id) ?? {};
    return questionField(question, question.type === "text" ? answer : selectedOptionIds);
  });
  /** @type {Form} */
  const form = new Form({
    fields,
    submit: t("answers_save"),
    send: async (values) => {
      const changed = await api.post("application/answers", { answers: answersIn(data.questions, values) });
      onSaved(changed);
      notice.announce(changed.message ?? "");
    },
    onRefusal: (refusal) => showQuestionRefusal(refusal, form),
  });
  return form;
}
