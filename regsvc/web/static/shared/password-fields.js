// The field for a new password: the host's rules in words, checked while the user types.

import { button, make } from "./dom.js";
import { Field } from "./form.js";
import { t } from "./i18n.js";

const ANY_CHARACTERS = "^.*$";
const VISIBLE_ASCII = "^[!-~]*$";

/** How many characters each kind adds to those that a password may consist of. */
const KINDS = /** @type {const} */ ([
  [/[a-z]/, 26],
  [/[A-Z]/, 26],
  [/[0-9]/, 10],
  [/[^a-zA-Z0-9]/, 33],
]);
const FAIR = 40; // bits
const STRONG = 60;

/**
 * Return whether a registration asks for a password. Without AuthMe an optional one would only be for these pages: who
 * wants to log in sets one later.
 *
 * @param {Config} config
 */
export function asksPassword({ registration: { password }, authme }) {
  return password === "required" || (password === "optional" && authme.enabled);
}

/** @typedef {{ minLength: number, maxLength: number, passwordRegex: string }} Rules */

/**
 * Make the field; `note` is another line of its hint while it is empty, `also` another check.
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
    hint: (value) => `${value ? "" : note}\n${rulesHint(rules)}`.trim(),
    check: (value) => findError(value, rules) || also(value),
    ...others,
  });
}

/** A field whose value can be shown, instead of having to be typed twice, and whose strength is told. */
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
    const segments = [make("span"), make("span"), make("span")];
    this.meter = make("div", { class: "bar strength", "aria-hidden": "true" }, segments);
    this.input.after(toggle, this.meter);
    this.refresh();
  }

  /** Show the rules until the password follows them, and then how strong it is. */
  refresh() {
    super.refresh();
    const strength = this.value && !this.check(this.value) ? strengthOf(this.value) : "";
    if (this.meter) {
      this.meter.dataset.strength = strength;
    }
    if (strength) {
      this.hint.textContent = t(strength);
    }
  }

  /** @param {HTMLButtonElement} toggle */
  toggle(toggle) {
    const isShown = this.input.type === "text";
    this.input.setAttribute("type", isShown ? "password" : "text");
    toggle.textContent = t(isShown ? "password_show" : "password_hide");
  }
}

/**
 * Estimate how hard a password is to guess, from the kinds of its characters and how many of them vary: "aaa", "1234"
 * and repetitions count for little. Returns the key of the text.
 *
 * @param {string} value
 */
export function strengthOf(value) {
  const pairs = new Set();
  for (let index = 1; index < value.length; index += 1) {
    if (Math.abs(value.charCodeAt(index) - value.charCodeAt(index - 1)) > 1) {
      pairs.add(value.slice(index - 1, index + 1));
    }
  }
  const characters = KINDS.reduce((sum, [kind, count]) => sum + (kind.test(value) ? count : 0), 0);
  const bits = (pairs.size + 1) * Math.log2(characters);
  return bits < FAIR ? "password_weak" : bits < STRONG ? "password_fair" : "password_strong";
}

/** @param {Rules} rules */
function rulesHint(rules) {
  return rules.passwordRegex === VISIBLE_ASCII
    ? t("password_usual", rules)
    : `${t("password_length", rules)}\n${charactersHint(rules)}`.trim();
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
