// The page behind a mailed link: it takes the token out of the address, and sets a password with it.

import { Api } from "../shared/api.js";
import { Form } from "../shared/form.js";
import { fillWith, link, make } from "../shared/dom.js";
import { start } from "../shared/page.js";
import { passwordField, repeatField } from "../shared/password-fields.js";
import { notice } from "../shared/notice.js";
import { LANGUAGE_SWITCH, word } from "../shared/i18n.js";

const api = new Api();
let token = takeToken();

/** The token behind the "#", "" if there is none. From now on it is in neither the address bar nor the history. */
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (location.hash) {
    history.replaceState(null, "", location.pathname);
  }
  return found;
}

/** There is nothing left to do with this link. */
function close(inside, text, kind, ...more) {
  token = "";
  fillWith(inside, ...more);
  notice.tell(text, kind);
}

async function draw(inside) {
  if (!token) {
    close(inside, word("link_incomplete"), "bad");
    return;
  }
  const { config } = await api.get("config");
  const password = passwordField("newPassword", word("password"), config);
  const form = new Form({
    fields: [password, repeatField(password)],
    submit: word("submit"),
    send: async ({ newPassword }) => {
      const reply = await api.post("password/reset", { token, newPassword });
      // those who still wait for their review have a password now, but may not join yet
      const text = reply.status === "approved" ? word("done_may_join") : word("done");
      close(inside, text, "good", make("p", {}, link("account", word("to_account"))));
    },
    onRefusal: (refusal) => {
      if (refusal.field !== "token") {
        return false;
      }
      close(inside, refusal.message, "bad", make("p", {}, link("forgot-password", word("ask_again"))));
      return true;
    },
  });
  fillWith(inside, form.element);
}

// Another link opened in the same tab changes what is behind the "#", and loads nothing.
addEventListener("hashchange", () => {
  const found = takeToken();
  if (found) {
    token = found;
    start(draw);
  }
});

// The switch of languages shows the page again, and the token is nowhere else.
addEventListener(LANGUAGE_SWITCH, () => {
  if (token) {
    history.replaceState(null, "", `#token=${token}`);
  }
});

start(draw);
