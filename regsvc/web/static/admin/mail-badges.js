// Mails, in words.

import { badge, named } from "./badges.js";

const KINDS = { waiting: "wait", sent: "good", failed: "bad" };

/** Which mail it is. */
export function whatMail({ template }) {
  return named("mail", template);
}

/** What became of it. */
export function fateOf({ state }) {
  return badge(named("fate", state), KINDS[state]);
}
