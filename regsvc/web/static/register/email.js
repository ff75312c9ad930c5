// Whom we may write to; a code goes there.

import { captchaFor, renewAfter } from "../shared/captcha.js";
import { Field } from "../shared/form.js";
import { sendCode } from "./code.js";
import { word } from "../shared/i18n.js";

const LOOKS_LIKE_ONE = /^[^\s@]+@[^\s@]+$/;

export const emailStep = {
  id: "email",
  owns: ["email"],
  isAsked: () => true,

  async draw(flow) {
    const { config, draft } = flow;
    const domains = config.emailDomainWhitelist;
    const email = new Field("email", word("email"), {
      type: "email",
      autocomplete: "email",
      inputmode: "email",
      value: draft.get("email") ?? "",
      hint: domains ? word("email_domains", { domains: domains.join(", ") }) : word("email_hint"),
      check: (value) => (LOOKS_LIKE_ONE.test(value.trim()) ? "" : word("email_wrong")),
    });
    const captcha = await captchaFor("verify_send", flow.api, config);
    const form = flow.form({
      fields: [email, captcha].filter(Boolean),
      send: async (values) => {
        draft.keep({ email: values.email.trim() });
        await sendCode(flow, captcha?.proof);
      },
      onRefusal: (refusal) => {
        renewAfter(refusal, captcha);
        return false;
      },
    });
    return { form };
  },
};
