// The field for a new password: the host's rules in words, checked while the user types.

import { button } from "./dom.js";
import { Field } from "./form.js";
import { t } from "./i18n.js";

const ANY_CHARACTERS = "^.*$";
const VISIBLE_ASCII = "^[!-~]*$";

/** @typedef {{ minLength: number, maxLength: number, passwordRegex: string }} Rules */

/**
 * Make the field; `note` is another line of its hint, `also` another check.
 *
 * @param {string} name
 * @param {string} label
 * @param {Config} config
 * @param {{ note?: string, also?: (value: string) => string } & import("./form.js").FieldOptions & Attributes} options
 */
export function passwordField(name, label, { registration }, { note = "", also = () => "", ...others } = {}) {
  const rules = {
    minLength: registration.passwordMinLength,
    maxLength: registration.passwordMaxLength,
    passwordRegex: registration.passwordRegex,
  };
  return new PasswordField(name, label, {
    type: "password",
    autocomplete: "new-password",
    // For password managers. A `maxlength` would silently shorten a pasted password.
    passwordrules: `minlength: ${rules.minLength}; maxlength: ${rules.maxLength};`,
    hint: (value) => [note, lengthHint(value, rules), charactersHint(rules)].filter(Boolean).join("\n"),
    check: (value) => findError(value, rules) || also(value),
    ...others,
  });
}

/** A field whose value can be shown, instead of having to be typed twice. */
class PasswordField extends Field {
  /**
   * @param {string} name
   * @param {string} label
   * @param {import("./form.js").FieldOptions & Attributes} options
   */
  constructor(name, label, options) {
    super(name, label, options);
    const toggle = button(t("password_show"), () => this.toggle(toggle), "plain");
    toggle.setAttribute("aria-controls", this.input.id);
    this.input.after(toggle);
  }

  /** @param {HTMLButtonElement} toggle */
  toggle(toggle) {
    const isShown = this.input.type === "text";
    this.input.setAttribute("type", isShown ? "password" : "text");
    toggle.textContent = t(isShown ? "password_show" : "password_hide");
  }
}

/**
 * @param {string} value
 * @param {Rules} rules
 */
function lengthHint(value, rules) {
  const hint = t("password_length", rules);
  return value ? `${hint} ${t("password_typed", { typed: value.length })}` : hint;
}

/** @param {Rules} rules */
function charactersHint(rules) {
  if (rules.passwordRegex === ANY_CHARACTERS) {
    return "";
  }
  return t(rules.passwordRegex === VISIBLE_ASCII ? "password_characters" : "password_pattern", rules);
}

/**
 * @param {string} value
 * @param {Rules} rules
 */
function findError(value, rules) {
  if (value.length < rules.minLength) {
    return t("password_too_short", rules);
  }
  if (value.length > rules.maxLength) {
    return t("password_too_long", rules);
  }
  return matches(value, rules.passwordRegex) ? "" : charactersHint(rules);
}

/**
 * Return whether the host's pattern matches; one that this browser cannot read is left to the API.
 *
 * @param {string} value
 * @param {string} pattern
 */
export function matches(value, pattern) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}
