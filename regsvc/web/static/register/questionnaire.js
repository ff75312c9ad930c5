// The host's questions. The answers are evaluated at once; a passing result is presented when registering.

import { Refusal } from "../shared/api.js";
import { make } from "../shared/dom.js";
import { Choice, Field } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { isProven } from "./code.js";

/** @type {Step} */
export const questionnaireStep = {
  id: "questionnaire",
  owns: ["questionnaire", "answers"],
  isRequired: (config) => config.questionnaire.enabled,

  async render(flow) {
    if (flow.draft.get("questionnaire")) {
      return { form: flow.form({ fields: [] }), above: make("p", {}, t("questionnaire_passed")) };
    }
    const { data } = await flow.api.get("questionnaire/config");
    const fields = data.questions.map((question) => fieldFor(question, flow.draft));
    const form = flow.form({
      fields,
      send: (values) => submit(flow, data.questions, values),
      onRefusal: (refusal) => {
        if (refusal.field === "proof") {
          flow.showRefusal(refusal, { isAtEnd: false }).catch((another) => notice.showRefusal(another));
          return true;
        }
        if (refusal.retryAfter) {
          form.hold(refusal.retryAfter);
          notice.announce(refusal.message, "bad");
          return true;
        }
        const field = fields.find(({ name }) => name === fieldName(refusal.body.questionId));
        field?.showError(refusal.message);
        field?.focus();
        return Boolean(field);
      },
    });
    return { form };
  },
};

/** @param {number | undefined} id */
function fieldName(id) {
  return `question-${id}`;
}

/**
 * @param {Question} question
 * @param {import("./draft.js").Draft} draft
 */
function fieldFor({ id, question, type, required, input, options }, draft) {
  const name = fieldName(id);
  if (type === "text") {
    return new Field(name, question, {
      type: input.multiline ? "textarea" : "text",
      isOptional: !required,
      value: draft.get(name) ?? "",
      placeholder: input.placeholder ?? null,
      hint: (value) => lengthHint(value, input),
      check: (value) => (isWithin(value.length, input.minLength, input.maxLength) ? "" : lengthHint(value, input)),
    });
  }
  const isMultiple = type === "multiple_choice";
  const hint = isMultiple ? selectionsHint(input) : "";
  const choices = (options ?? []).map((option) => ({ value: option.id, text: option.text }));
  return new Choice(name, question, choices, {
    isMultiple,
    isOptional: !required,
    chosen: draft.get(name) ?? [],
    hint,
    check: (value) => (isWithin(value.length, input.minSelections, input.maxSelections) ? "" : hint),
  });
}

/** @param {number} count */
function isWithin(count, least = 0, most = Number.POSITIVE_INFINITY) {
  return count >= least && count <= most;
}

/**
 * @param {string} value
 * @param {Question["input"]} input
 */
function lengthHint(value, { minLength = 0, maxLength }) {
  return maxLength === undefined ? "" : t("answer_length", { minLength, maxLength, typed: value.length });
}

/** @param {Question["input"]} input */
function selectionsHint({ minSelections = 0, maxSelections }) {
  return maxSelections === undefined ? "" : t("answer_selections", { minSelections, maxSelections });
}

/**
 * @param {import("./flow.js").Flow} flow
 * @param {Question[]} questions
 * @param {Record<string, string | string[]>} values
 */
async function submit(flow, questions, values) {
  /** @type {PostBody<"questionnaire/submit">["answers"]} */
  const answers = {};
  for (const { id, type } of questions) {
    const value = /** @type {any} */ (values[fieldName(id)]);
    if (value.length) {
      answers[id] = type === "text" ? { type, textAnswer: value } : { type, selectedOptionIds: value };
    }
  }
  const proof = isProven(flow.draft) ? { proof: flow.draft.get("proof") } : {};
  const result = await flow.api.post("questionnaire/submit", { answers, ...proof });
  const { message = "" } = result;
  if (!result.passed) {
    throw new Refusal(200, { code: "questionnaire_failed", message }, result.remainingSeconds || null);
  }
  flow.draft.update({ questionnaire: { token: result.token } });
  notice.show(message, "good");
}
