// The question in a picture, where the host asks one.

import { button, make } from "./dom.js";
import { Field } from "./form.js";
import { notice } from "./notice.js";
import { word } from "./i18n.js";

/** A Field with its picture. Fetch one with `renew()`; `token` names the challenge that the answer is for. */
export class CaptchaField extends Field {
  constructor(api, { type }) {
    super("captchaAnswer", word("captcha_answer"), {
      hint: word(type === "math" ? "captcha_hint_math" : "captcha_hint_text"),
      inputmode: type === "math" ? "numeric" : "text",
      autocomplete: "off",
    });
    this.api = api;
    this.token = null;
    this.picture = make("img", { class: "captcha", alt: word("captcha_picture") });
    this.element.prepend(this.picture);
    this.element.append(button(word("captcha_other"), () => this.renew().catch((refusal) => notice.refuse(refusal)), "plain"));
  }

  /** Another picture. Throws a Refusal. */
  async renew() {
    const { token, image } = await this.api.get("captcha/generate");
    this.token = token;
    this.picture.src = image;
    this.value = "";
  }

  /** What requests send. */
  get proof() {
    return { captchaToken: this.token, captchaAnswer: this.value };
  }
}

/** Whether the host asks for one there: "register", "verify_send" or "login". */
export function isAskedFor(use, config) {
  return config.captcha.requiredFor.includes(use);
}

/**
 * The captcha of a form that sends one request, and spends the answer with it; null where none is asked for.
 *
 * Put `onRefusal` before the form's own.
 */
export async function captchaFor(use, api, config) {
  if (!isAskedFor(use, config)) {
    return null;
  }
  const field = new CaptchaField(api, config.captcha);
  await field.renew();
  return field;
}

/** After a refusal a new picture is needed; the message stays. */
export async function renewAfter(refusal, captcha) {
  if (captcha !== null && refusal.status !== 0) {
    await captcha.renew().catch(() => {}); // the button for another picture is still there
    if (refusal.field === captcha.name) {
      captcha.complain(refusal.message);
    }
  }
}
