// What the team asked about an application: the newest question is answered here, earlier ones are shown with answers.

import { make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @param {import("./answers.js").Parts} parts */
export function questionsSection({ api, application, show }) {
  const { questions, waitingFor } = application;
  if (questions.length === 0) {
    return null;
  }
  const isAsked = waitingFor === "applicant";
  const said = questions.flatMap(({ question, answer }) => [
    make("blockquote", { class: "lines" }, question),
    answer !== null && make("p", { class: "lines" }, answer),
  ]);
  return make(
    "section",
    isAsked ? { class: "panel", "data-kind": "wait" } : { class: "section" },
    make("h2", {}, t(isAsked ? "asked_title" : "questions_title")),
    ...said,
    isAsked && answerForm(api, show),
  );
}

/**
 * @param {import("../shared/api.js").Api} api
 * @param {import("./answers.js").Parts["show"]} show
 */
function answerForm(api, show) {
  return new Form({
    fields: [
      new Field("text", t("asked_answer"), {
        type: "textarea",
        maxlength: 4000,
      }),
    ],
    submit: t("asked_send"),
    send: async ({ text }) => {
      const answered = await api.post("application/answer", { text });
      show(answered);
      notice.announce(answered.message ?? "");
    },
  }).element;
}
