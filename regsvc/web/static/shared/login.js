// The login, of players and of operators: name and password, the second factor and a captcha where they are asked for.

import { captchaFor, renewAfter } from "./captcha.js";
import { Field, Form } from "./form.js";
import { moment, word } from "./i18n.js";
import { notice } from "./notice.js";

/** The form. `path`: "login" or "admin/login"; `onLogin(reply)` is called when it succeeded. Throws a Refusal. */
export async function loginForm({ api, config, path, onLogin, username = "" }) {
  const captcha = await captchaFor("login", api, config);
  const name = new Field("username", word("login_name"), { autocomplete: "username", value: username });
  const password = new Field("password", word("login_password"), { type: "password", autocomplete: "current-password" });
  const totp = totpField();
  const fields = [name, password, totp, captcha].filter(Boolean);
  const form = new Form({
    fields,
    submit: word("log_in"),
    send: async (values) => {
      const second = values.totp ? { totp: values.totp.replaceAll(" ", "") } : {};
      const credentials = { username: values.username, password: values.password, ...second, ...captcha?.proof };
      await onLogin(await api.post(path, credentials));
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      if (refusal.code === "totp_required" && totp.element.hidden) {
        totp.element.hidden = false;
        notice.say(refusal.message);
        totp.focus();
        return true;
      }
      if (refusal.code === "banned") {
        notice.tell(banOf(refusal), "bad");
        return true;
      }
      return false;
    },
  });
  return form;
}

/** The field for the code of an authenticator app, hidden until it is asked for. */
export function totpField() {
  const totp = new Field("totp", word("login_totp"), {
    hint: word("login_totp_hint"),
    isOptional: true,
    inputmode: "numeric",
    autocomplete: "one-time-code",
  });
  totp.element.hidden = true;
  return totp;
}

/** The message has the reason; when it ends stands beside it. */
function banOf({ message, facts: { banExpiresAt } }) {
  return banExpiresAt ? `${message}\n${word("ban_until", { until: moment(banExpiresAt) })}` : message;
}
