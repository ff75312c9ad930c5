// The e-mail address; a code is sent to it.

import { captchaFor, renewAfter } from "../shared/captcha.js";
import { Field } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { sendCode } from "./code.js";

export const LOOKS_LIKE_AN_ADDRESS = /^[^\s@]+@[^\s@]+$/;

/** @type {Step} */
export const emailStep = {
  id: "email",
  owns: ["email", "proof"],
  isRequired: (config) => config.registration.email === "verified",

  async render(flow) {
    const { config, draft } = flow;
    const domains = config.emailDomainWhitelist;
    const email = new Field("email", t("email"), {
      type: "email",
      autocomplete: "email",
      inputmode: "email",
      value: draft.get("email") ?? "",
      hint: domains ? t("email_domains", { domains: domains.join(", ") }) : t("email_hint"),
      check: (value) => (LOOKS_LIKE_AN_ADDRESS.test(value.trim()) ? "" : t("email_wrong")),
    });
    const captcha = await captchaFor("verify_send", flow.api, config);
    const form = flow.form({
      fields: captcha === null ? [email] : [email, captcha],
      send: async (values) => {
        draft.update({ email: values.email.trim() });
        await sendCode(flow, await captcha?.proof());
      },
      onRefusal: (refusal) => {
        renewAfter(refusal, captcha);
        return false;
      },
    });
    return { form };
  },
};
