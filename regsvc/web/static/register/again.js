// Applying again after a rejection: one page, filled in with the earlier application, whose token proves the address.

import { asRefusal } from "../shared/api.js";
import { playsBedrock } from "../shared/config.js";
import { make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { fieldName, showQuestionRefusal } from "../shared/questions.js"; // if questionnaire
import { nameFields, nameStep } from "./name.js";
import { questionFields, questionnaireStep } from "./questionnaire.js"; // if questionnaire

/** @type {Step} */
export const againStep = {
  id: "again",
  owns: [...nameStep.owns, ...(questionnaireStep?.owns ?? [])],
  isRequired: () => true,

  async render(flow) {
    const { config, draft } = flow;
    const name = nameFields(flow);
    const questions = config.questionnaire.enabled ? await questionFields(flow) : { fields: [], send: () => {} };
    const form = flow.form({
      fields: [...name.fields, ...questions.fields],
      send: async (values) => {
        await name.send(values);
        await questions.send(values);
      },
      onRefusal: (refusal) =>
        flow.leadsToProof(refusal) || (refusal.code !== "rate_limited" && showQuestionRefusal(refusal, form)),
    });
    const email = draft.get("email");
    return {
      form,
      above: email && config.registration.email === "verified" && make("p", {}, t("code_right", { email })),
    };
  },
};

/**
 * Fill the draft in with the application that its token opens. A token that cannot be used any more is forgotten.
 *
 * @param {import("./draft.js").Draft} draft
 * @param {import("../shared/api.js").Api} api
 */
export async function fillInAgain(draft, api) {
  const token = draft.get("reapplyToken");
  if (!token || draft.get("username")) {
    return;
  }
  const found = await api.get("application", {}, { headers: { "X-Application-Token": token } }).catch((error) => {
    if (asRefusal(error).code !== "application_not_found") {
      throw error;
    }
    return null;
  });
  if (found?.status !== "rejected") {
    draft.clear();
    return;
  }
  const { username, email, answers } = found;
  const given = fieldName === undefined ? [] : (answers ?? []); // undefined: this host asks no questions now
  draft.update({
    email,
    username,
    platform: playsBedrock(username) ? "bedrock" : "java",
    ...Object.fromEntries(
      given.map(({ questionId, answer, selectedOptionIds }) => [
        fieldName(questionId),
        selectedOptionIds.length ? selectedOptionIds : answer,
      ]),
    ),
  });
}
