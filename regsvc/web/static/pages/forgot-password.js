// Requesting a mailed link to set a new password. Whether the address has an account is not revealed. Where nothing is
// mailed, the page says whom to ask.

import { Api } from "../shared/api.js";
import { link, make, replaceContent } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { startPage } from "../shared/page.js";

const api = new Api();

/** @param {HTMLElement} content */
async function render(content) {
  const { config } = await api.get("config");
  const toAccount = make("p", {}, link("account", t("to_account")));
  if (config.registration.passwordReset === "operator") {
    replaceContent(content, make("p", {}, t("about_operator")), toAccount);
    return;
  }
  const form = new Form({
    fields: [new Field("email", t("email"), { type: "email", autocomplete: "email", inputmode: "email" })],
    submit: t("submit"),
    send: async ({ email }) => {
      const { message = "" } = await api.post("password/forgot", { email: email.trim() });
      replaceContent(content, make("p", {}, t("look")), toAccount);
      notice.announce(message);
    },
  });
  replaceContent(content, make("p", {}, t("about")), form.element);
}

startPage(render);
