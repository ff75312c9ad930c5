// The captcha: a picture with a question, where the host requires one.

import { button, make } from "./dom.js";
import { Field } from "./form.js";
import { t } from "./i18n.js";
import { notice } from "./notice.js";

const RENEWED_BEFORE = 10; // seconds until it expires

/** @typedef {"register" | "verify_send" | "login" | "forgot"} CaptchaUse */

/** A field with its picture. Load one with `renew()`; `token` names the challenge that the answer is for. */
export class CaptchaField extends Field {
  /**
   * @param {import("./api.js").Api} api
   * @param {Config["captcha"]} captcha
   */
  constructor(api, { type }) {
    super("captchaAnswer", t("captcha_answer"), {
      hint: t(type === "math" ? "captcha_hint_math" : "captcha_hint_text"),
      inputmode: type === "math" ? "numeric" : "text",
      autocomplete: "off",
    });
    this.api = api;
    /** @type {string | null} */
    this.token = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.expiry = undefined;
    this.picture = make("img", { class: "captcha", alt: t("captcha_picture") });
    this.element.prepend(this.picture);
    const renew = () => this.renew().catch((refusal) => notice.showRefusal(refusal));
    this.element.append(button(t("captcha_other"), renew, "plain"));
  }

  /** Load another picture, and again shortly before it expires, for as long as it is shown. Throws a Refusal. */
  async renew() {
    const { token, image, expiresInSeconds } = await this.api.get("captcha/generate");
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.renewIfShown(), Math.max(1, expiresInSeconds - RENEWED_BEFORE) * 1000);
    this.token = token;
    this.picture.src = image;
    this.value = "";
  }

  async renewIfShown() {
    if (this.element.isConnected) {
      await this.renew().catch(() => {}); // the button for another picture is still there
    }
  }

  /** The fields of a request that answer the captcha. */
  get proof() {
    return { captchaToken: this.token, captchaAnswer: this.value };
  }
}

/**
 * Return whether the host requires a captcha for this use.
 *
 * @param {CaptchaUse} use
 * @param {Config} config
 */
export function requiresCaptcha(use, config) {
  return config.captcha.requiredFor.includes(use);
}

/**
 * Return the captcha of a form whose one request spends the answer, or null where none is required.
 *
 * Call `renewAfter` in the form's `onRefusal`.
 *
 * @param {CaptchaUse} use
 * @param {import("./api.js").Api} api
 * @param {Config} config
 */
export async function captchaFor(use, api, config) {
  if (!requiresCaptcha(use, config)) {
    return null;
  }
  const field = new CaptchaField(api, config.captcha);
  await field.renew();
  return field;
}

/**
 * Load a new picture after a refusal, keeping the message.
 *
 * @param {import("./api.js").Refusal} refusal
 * @param {CaptchaField | null} captcha
 */
export async function renewAfter(refusal, captcha) {
  if (captcha !== null && refusal.status !== 0) {
    await captcha.renew().catch(() => {}); // the button for another picture is still there
    if (refusal.field === captcha.name) {
      captcha.showError(refusal.message);
    }
  }
}
