// Texts that operators give as reasons again and again: kept in this browser, some are there from the beginning.

import { hasWord, word } from "../../shared/i18n.js";
import { keep, recall } from "../browser-storage.js";

const LONGEST = 30; // texts for one decision

/** The texts of a decision ("reject"), in their order. */
export function savedTexts(decision) {
  return recall("texts", {})[decision] ?? firstTexts(decision);
}

/** Put a text at the end of them, unless it is among them. */
export function saveText(decision, text) {
  const others = savedTexts(decision).filter((saved) => saved !== text);
  write(decision, [...others, text].slice(-LONGEST));
}

export function removeText(decision, text) {
  write(decision, savedTexts(decision).filter((saved) => saved !== text));
}

/** What was given last as a reason; "" for nothing. Before the first time: the first of the texts. */
export function lastText(decision) {
  return recall("last_texts", {})[decision] ?? (decision === "reject" ? (savedTexts(decision)[0] ?? "") : "");
}

export function rememberText(decision, text) {
  keep("last_texts", { ...recall("last_texts", {}), [decision]: text });
}

function write(decision, texts) {
  keep("texts", { ...recall("texts", {}), [decision]: texts });
}

function firstTexts(decision) {
  const texts = [];
  while (hasWord(`text_${decision}_${texts.length + 1}`)) {
    texts.push(word(`text_${decision}_${texts.length + 1}`));
  }
  return texts;
}
