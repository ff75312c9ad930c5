// A link to set a new password, by mail. Whether the address has an account is not told.

import { Api } from "./api.js";
import { fillWith, link, make } from "./elements.js";
import { Field, Form } from "./form.js";
import { start } from "./page.js";
import { notice } from "./pieces.js";
import { word } from "./words.js";

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
