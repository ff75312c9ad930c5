// Fields for a new password: the host's rules in words, followed while one types.

import { Field } from "./form.js";
import { word } from "./i18n.js";

const ANY_CHARACTERS = "^.*$";
const VISIBLE_ASCII = "^[!-~]*$";

/**
 * `config`: of `GET /api/config`; `note`: one more line of the hint; `also`: one more check; `input`: more for the Field.
 */
export function passwordField(name, label, { registration }, { note = "", also = () => "", ...input } = {}) {
  const rules = {
    minLength: registration.passwordMinLength,
    maxLength: registration.passwordMaxLength,
    passwordRegex: registration.passwordRegex,
  };
  return new Field(name, label, {
    type: "password",
    autocomplete: "new-password",
    // For password managers. A `maxlength` would silently shorten what is pasted.
    passwordrules: `minlength: ${rules.minLength}; maxlength: ${rules.maxLength};`,
    hint: (value) => [note, lengthHint(value, rules), charactersHint(rules)].filter(Boolean).join("\n"),
    check: (value) => faultOf(value, rules) || also(value),
    ...input,
  });
}

/** The same once more: nobody sees what is typed. */
export function repeatField(password) {
  return new RepeatField(password);
}

class RepeatField extends Field {
  constructor(password) {
    const required = password.isOptional ? null : "true";
    super("repeat", word("password_repeat"), { type: "password", autocomplete: "new-password", "aria-required": required });
    this.password = password;
  }

  /** Also where both may be empty, one alone may not. */
  fault() {
    return this.value === this.password.value ? "" : word("password_mismatch");
  }
}

function lengthHint(value, rules) {
  const hint = word("password_length", rules);
  return value ? `${hint} ${word("password_typed", { typed: value.length })}` : hint;
}

function charactersHint(rules) {
  if (rules.passwordRegex === ANY_CHARACTERS) {
    return "";
  }
  return word(rules.passwordRegex === VISIBLE_ASCII ? "password_characters" : "password_pattern", rules);
}

function faultOf(value, rules) {
  if (value.length < rules.minLength) {
    return word("password_too_short", rules);
  }
  if (value.length > rules.maxLength) {
    return word("password_too_long", rules);
  }
  return matches(value, rules.passwordRegex) ? "" : charactersHint(rules);
}

/** Whether the host's pattern fits; one that this browser cannot read is left to the API. */
export function matches(value, pattern) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}
