// Another password for somebody: an operator sets one, or a link is mailed to do so. It happens at once.

import { Refusal } from "../../../shared/api.js";
import { button, make } from "../../../shared/dom.js";
import { Form } from "../../../shared/form.js";
import { passwordField } from "../../../shared/password-fields.js";
import { confirm, notice } from "../../../shared/notice.js";
import { named } from "../../badges.js";
import { word } from "../../../shared/i18n.js";

/** `{element, show(user)}`: `show` is told the user as he is by now, or null. */
export function passwordPart(office, name) {
  const password = passwordField("password", word("password_new"), office.config, { autocomplete: "off" });
  const form = new Form({
    fields: [password],
    submit: word("password_set_now"),
    send: async (values) => {
      await send(office, { username: name, password: values.password });
      password.value = "";
    },
  });
  const mail = button(word("password_mail"), () => mailLink(office, name), "quiet");
  const noMail = make("p", { class: "quiet-text" }, word("password_no_mail"));
  const element = make("details", { class: "password-part" }, make("summary", {}, word("password_part")), make("p", {}, word("password_about")), mail, noMail, form.element);
  return {
    element,
    show(user) {
      element.hidden = user === null;
      mail.hidden = user?.email == null;
      noMail.hidden = user?.email != null;
    },
  };
}

async function mailLink(office, username) {
  if (!(await confirm(word("password_mail"), word("password_mail_sure", { name: username }), { agree: word("password_mail"), kind: "" }))) {
    return;
  }
  try {
    await send(office, { username });
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) {
      throw refusal;
    }
    notice.refuse(refusal);
  }
}

/** Throws a Refusal. */
async function send(office, body) {
  const { message, warnings = [] } = await office.api.post("admin/user/password", body);
  notice.tell([message, ...warnings.map((code) => named("warning", code))].join("\n"), warnings.length ? "bad" : "good");
}
