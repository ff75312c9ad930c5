// The host's questions as fields, and their values as the answers that the API takes.

import { Choice, Field } from "./form.js";
import { language, t } from "./i18n.js";
import { notice } from "./notice.js";

/** @param {number | string | undefined} id of a question; "": what all names begin with */
export function fieldName(id) {
  return `question-${id}`;
}

/**
 * Make the field of a question. Screen readers speak a question in the language that the host wrote it in.
 *
 * @param {Question} question
 * @param {any} value a text, or the list of the chosen options' ids
 */
export function questionField(question, value) {
  const field = makeField(question, value);
  if (question.language !== null && question.language !== language) {
    for (const text of field.element.querySelectorAll("legend, label")) {
      text.setAttribute("lang", question.language);
    }
  }
  return field;
}

/**
 * @param {Question} question
 * @param {any} value
 */
function makeField({ id, question, type, required, input, options }, value) {
  const name = fieldName(id);
  if (type === "text") {
    return new Field(name, question, {
      type: input.multiline ? "textarea" : "text",
      isOptional: !required,
      value: value ?? "",
      placeholder: input.placeholder ?? null,
      hint: (text) => lengthHint(text, input),
      check: (text) => lengthError(text, input),
    });
  }
  const isMultiple = type === "multiple_choice";
  const hint = isMultiple ? selectionsHint(input) : "";
  const choices = (options ?? []).map((option) => ({ value: option.id, text: option.text }));
  return new Choice(name, question, choices, {
    isMultiple,
    isOptional: !required,
    chosen: value ?? [],
    hint,
    check: (chosen) => (isWithin(chosen.length, input.minSelections, input.maxSelections) ? "" : hint),
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
  if (maxLength === undefined) {
    return "";
  }
  return t(minLength > 0 ? "answer_length" : "answer_up_to", { minLength, maxLength, typed: value.length });
}

/**
 * @param {string} value
 * @param {Question["input"]} input
 */
function lengthError(value, { minLength = 0, maxLength = Number.POSITIVE_INFINITY }) {
  if (value.length < minLength) {
    return t("answer_short", { minLength });
  }
  return value.length > maxLength ? t("answer_long", { maxLength }) : "";
}

/** @param {Question["input"]} input */
function selectionsHint({ minSelections = 0, maxSelections }) {
  return maxSelections === undefined ? "" : t("answer_selections", { minSelections, maxSelections });
}

/**
 * Return the answers in the values of a form, without questions that were skipped.
 *
 * @param {Question[]} questions
 * @param {Record<string, any>} values
 */
export function answersIn(questions, values) {
  /** @type {PostBody<"questionnaire/submit">["answers"]} */
  const answers = {};
  for (const { id, type } of questions) {
    const value = values[fieldName(id)];
    if (value.length) {
      answers[id] = type === "text" ? { type, textAnswer: value } : { type, selectedOptionIds: value };
    }
  }
  return answers;
}

/**
 * Show a refusal at the question that it is about, or count its wait down above the form. Returns whether it did.
 *
 * @param {import("./api.js").Refusal} refusal
 * @param {import("./form.js").Form} form
 */
export function showQuestionRefusal(refusal, form) {
  const wait = refusal.retryAfter ?? refusal.body.remainingSeconds;
  if (wait) {
    form.hold(wait);
    const key = refusal.body.fault === "kept" ? "failed_kept" : "failed_wait";
    notice.showWait(refusal, wait, refusal.code === "questionnaire_failed" ? key : undefined);
    return true;
  }
  const field = form.fields.find(({ name }) => name === fieldName(refusal.body.questionId));
  field && form.pointOut(field, refusal.message);
  return Boolean(field);
}
