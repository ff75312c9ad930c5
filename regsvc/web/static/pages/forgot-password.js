// A link to set a new password, by mail. Whether the address has an account is not told.

import { Api } from "../shared/api.js";
import { fillWith, link, make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { start } from "../shared/page.js";
import { notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";

const api = new Api();

function draw(inside) {
  const form = new Form({
    fields: [new Field("email", word("email"), { type: "email", autocomplete: "email", inputmode: "email" })],
    submit: word("submit"),
    send: async ({ email }) => {
      const { message } = await api.post("password/forgot", { email: email.trim() });
      fillWith(inside, make("p", {}, word("look")), make("p", {}, link("account", word("to_account"))));
      notice.tell(message);
    },
  });
  fillWith(inside, make("p", {}, word("about")), form.element);
}

start(draw);
