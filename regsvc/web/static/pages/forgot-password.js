// Requesting a mailed link to set a new password. Whether the address has an account is not revealed. Where nothing is
// mailed, the page says whom to ask.

import { Api } from "../shared/api.js";
import { captchaFor, renewAfter } from "../shared/captcha.js";
import { config, linkContact } from "../shared/config.js";
import { link, make, replaceContent } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { startPage } from "../shared/page.js";

const api = new Api();

/** @param {HTMLElement} content */
function render(content) {
  const toAccount = make("p", {}, link("account", t("to_account")));
  if (config.registration.passwordReset === "operator") {
    replaceContent(content, make("p", { class: "lines" }, linkContact(t("about_operator"))), toAccount);
    return;
  }
  const captcha = captchaFor("forgot", api, config);
  const address = new Field("email", t("email"), { type: "email", autocomplete: "email", inputmode: "email" });
  const form = new Form({
    fields: captcha === null ? [address] : [address, captcha],
    submit: t("submit"),
    send: async ({ email }) => {
      const { message = "" } = await api.post("password/forgot", { email: email.trim(), ...(await captcha?.proof()) });
      replaceContent(content, make("p", {}, t("look")), toAccount);
      notice.announce(message);
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      return false;
    },
  });
  replaceContent(content, make("p", {}, t("about")), form.element);
}

startPage(render);
