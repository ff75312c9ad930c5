// Another e-mail address: a code goes there first.

import { captchaFor, renewAfter } from "../shared/captcha.js";
import { fillWith, make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { word } from "../shared/i18n.js";
import { currentPasswordField } from "./password.js";

export const emailSection = {
  title: "email_title",
  isThere: () => true,

  async draw(account) {
    const place = make("div", {});
    fillWith(place, await addressForm(account, place));
    return place;
  },
};

async function addressForm(account, place) {
  const captcha = await captchaFor("verify_send", account.api, account.config);
  const email = new Field("email", word("email_new"), { type: "email", autocomplete: "email", inputmode: "email" });
  return new Form({
    fields: [email, captcha].filter(Boolean),
    submit: word("code_send"),
    send: async (values) => {
      const wished = values.email.trim();
      await account.api.post("verify/send", { email: wished, purpose: "change_email", ...captcha?.proof });
      const form = codeForm(account, wished);
      fillWith(place, make("p", {}, word("code_sent", { email: wished })), form.element);
      form.fields[0].focus();
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      return false;
    },
  }).element;
}

function codeForm({ api, refresh }, email) {
  const code = new Field("code", word("code"), { inputmode: "numeric", autocomplete: "one-time-code" });
  return new Form({
    fields: [code, currentPasswordField()],
    submit: word("email_change"),
    send: async (values) => {
      const { currentPassword } = values;
      await api.post("user/update", { email, code: values.code.replace(/[\s-]/g, ""), currentPassword });
      await refresh();
    },
  });
}
