// Changing the e-mail address: a code is sent to the new one first.

import { captchaFor, renewAfter } from "../shared/captcha.js";
import { make, replaceContent } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { currentPasswordField } from "./password.js";

/** @type {AccountSection} */
export function renderEmail(account) {
  const container = make("div", {});
  replaceContent(container, addressForm(account, container));
  return container;
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
function addressForm(account, container) {
  const captcha = captchaFor("verify_send", account.api, account.config);
  const address = new Field("email", t("email_new"), { type: "email", autocomplete: "email", inputmode: "email" });
  return new Form({
    fields: captcha === null ? [address] : [address, captcha],
    submit: t("code_send"),
    send: async (values) => {
      const email = values.email.trim();
      await account.api.post("verify/send", { email, purpose: "change_email", ...(await captcha?.proof()) });
      const form = codeForm(account, email);
      replaceContent(container, make("p", {}, t("code_sent", { email })), form.element);
      form.fields[0].focus();
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      return false;
    },
  }).element;
}

/**
 * @param {Account} account
 * @param {string} email
 */
function codeForm({ api, refresh }, email) {
  const code = new Field("code", t("code"), { inputmode: "numeric", autocomplete: "one-time-code" });
  return new Form({
    fields: [code, currentPasswordField()],
    submit: t("email_change"),
    send: async ({ code, currentPassword }) => {
      await api.post("user/update", { email, code: code.replace(/[\s-]/g, ""), currentPassword });
      await refresh();
    },
  });
}
