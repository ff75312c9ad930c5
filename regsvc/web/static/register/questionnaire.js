// The host's questions. The answers are evaluated at once; a passing result is presented when registering.

import { Refusal } from "../shared/api.js";
import { make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { answersIn, fieldName, questionField, showQuestionRefusal } from "../shared/questions.js";

/** @type {Step} */
export const questionnaireStep = {
  id: "questionnaire",
  owns: ["questionnaire", "answers"],
  isRequired: (config) => config.questionnaire.enabled,
  given: ({ draft }) => [[t("step_questionnaire"), t("answers_given", { count: countAnswers(draft) })]],
  reopen: (draft) => draft.update({ questionnaire: null }),

  async render(flow) {
    if (flow.draft.get("questionnaire")) {
      return { form: flow.form({ fields: [] }), above: make("p", {}, t("questionnaire_passed")) };
    }
    const { fields, send } = await questionFields(flow);
    const form = flow.form({
      fields,
      send,
      onRefusal: (refusal) => flow.leadsToProof(refusal) || showQuestionRefusal(refusal, form),
    });
    return { form };
  },
};

/** @param {import("./draft.js").Draft} draft */
function countAnswers({ values }) {
  return Object.keys(values).filter((name) => name.startsWith(fieldName("")) && values[name].length).length;
}

/**
 * Make the fields, with the answers of the draft, and what has their values evaluated. Throws a Refusal.
 *
 * @param {import("./flow.js").Flow} flow
 */
export async function questionFields(flow) {
  const { data } = await flow.api.get("questionnaire/config");
  return {
    fields: data.questions.map((question) => questionField(question, flow.draft.get(fieldName(question.id)))),
    send: (/** @type {Record<string, any>} */ values) => submit(flow, data.questions, values),
  };
}

/**
 * @param {import("./flow.js").Flow} flow
 * @param {Question[]} questions
 * @param {Record<string, string | string[]>} values
 */
async function submit(flow, questions, values) {
  const proof = flow.draft.isProven ? { proof: flow.draft.get("proof") } : {};
  const result = await flow.api.post("questionnaire/submit", { answers: answersIn(questions, values), ...proof });
  const { message = "", passed, score, passScore, remainingSeconds } = result;
  if (!passed) {
    throw new Refusal(200, { code: "questionnaire_failed", message, score, passScore }, remainingSeconds || null);
  }
  flow.draft.update({ questionnaire: { token: result.token } });
  notice.show(message, "good");
}
