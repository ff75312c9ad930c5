// The host's questions. The answers are judged at once; a result that passed is shown at the registration.

import { make } from "../shared/dom.js";
import { Choice, Field } from "../shared/form.js";
import { Refusal } from "../shared/api.js";
import { notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";

export const questionnaireStep = {
  id: "questionnaire",
  owns: ["questionnaire", "answers"],
  isAsked: (config) => config.questionnaire.enabled,

  async draw(flow) {
    if (flow.draft.get("questionnaire")) {
      return { form: flow.form({ fields: [] }), above: make("p", {}, word("questionnaire_passed")) };
    }
    const { data } = await flow.api.get("questionnaire/config");
    const fields = data.questions.map((question) => fieldFor(question, flow.draft));
    const form = flow.form({
      fields,
      send: (values) => submit(flow, data.questions, values),
      onRefusal: (refusal) => {
        const field = fields.find(({ name }) => name === fieldName(refusal.facts.questionId));
        field?.complain(refusal.message);
        field?.focus();
        return Boolean(field);
      },
    });
    return { form };
  },
};

function fieldName(id) {
  return `question-${id}`;
}

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
  return new Choice(name, question, options.map((option) => ({ value: option.id, text: option.text })), {
    isMultiple,
    isOptional: !required,
    chosen: draft.get(name) ?? [],
    hint,
    check: (value) => (isWithin(value.length, input.minSelections, input.maxSelections) ? "" : hint),
  });
}

function isWithin(count, least = 0, most = Infinity) {
  return count >= least && count <= most;
}

function lengthHint(value, { minLength = 0, maxLength }) {
  return maxLength === undefined ? "" : word("answer_length", { minLength, maxLength, typed: value.length });
}

function selectionsHint({ minSelections = 0, maxSelections }) {
  return maxSelections === undefined ? "" : word("answer_selections", { minSelections, maxSelections });
}

async function submit(flow, questions, values) {
  const answers = {};
  for (const { id, type } of questions) {
    const value = values[fieldName(id)];
    if (value.length) {
      answers[id] = type === "text" ? { type, textAnswer: value } : { type, selectedOptionIds: value };
    }
  }
  const result = await flow.api.post("questionnaire/submit", { answers });
  if (!result.passed) {
    throw new Refusal(200, { code: "questionnaire_failed", message: result.message });
  }
  flow.draft.keep({ questionnaire: { token: result.token } });
  notice.say(result.message, "good");
}
