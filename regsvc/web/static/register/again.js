// Applying again after a rejection: one page, filled in with the earlier application, whose token proves the address.

import { make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { showQuestionRefusal } from "../shared/questions.js"; // if questionnaire
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
