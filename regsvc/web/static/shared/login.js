// The login form of players and operators: name and password, and a second factor and a captcha where required.

import { CaptchaField, captchaFor, renewAfter } from "./captcha.js";
import { link, make } from "./dom.js";
import { Field, Form } from "./form.js";
import { formatTime, t } from "./i18n.js";
import { notice } from "./notice.js";

/**
 * Make the form.
 *
 * @param {object} options
 * @param {import("./api.js").Api} options.api
 * @param {Config} options.config
 * @param {"login" | "admin/login"} options.path
 * @param {(reply: PostReply<"login">, stays: boolean) => unknown} options.onLogin `stays`: logged in on this device
 * @param {string} [options.username]
 */
export function loginForm({ api, config, path, onLogin, username = "" }) {
  const required = captchaFor("login", api, config);
  const captcha = required ?? hiddenCaptcha(api, config);
  const name = new Field("username", t("login_name"), { autocomplete: "username", value: username });
  const password = new Field("password", t("login_password"), {
    type: "password",
    autocomplete: "current-password",
  });
  const totp = totpField();
  const stay = make("input", { type: "checkbox" });
  return new Form({
    fields: [name, password, totp, captcha],
    others: [path === "login" && make("label", { class: "option" }, stay, make("span", {}, t("login_stay")))],
    submit: t("log_in"),
    send: async (values) => {
      const { username, password } = values;
      const proof = captcha.element.hidden ? {} : await captcha.proof();
      await onLogin(await api.post(path, { username, password, ...secondFactor(values), ...proof }), stay.checked);
    },
    onRefusal: (refusal) => {
      if (refusal.body.captchaHelps && captcha.element.hidden) {
        captcha.element.hidden = false;
        notice.show(t("login_captcha_helps"));
        captcha.renew().then(
          () => captcha.focus(),
          (failure) => notice.showRefusal(failure),
        );
        return true;
      }
      renewAfter(refusal, captcha.element.hidden ? null : captcha);
      if (refusal.code === "totp_required" && totp.element.hidden) {
        totp.element.hidden = false;
        notice.show(refusal.message);
        totp.focus();
        return true;
      }
      if (refusal.code === "totp_setup_required") {
        notice.announce(refusal.message, "bad");
        notice.element.append(" ", link("account#totp_title", t("login_totp_setup")));
        return true;
      }
      if (refusal.code === "banned") {
        notice.announce(banMessage(refusal), "bad");
        return true;
      }
      return false;
    },
  });
}

/**
 * Make a captcha that is shown only where it saves a wait: while others guess the password of an account.
 *
 * @param {import("./api.js").Api} api
 * @param {Config} config
 */
function hiddenCaptcha(api, config) {
  const captcha = new CaptchaField(api, config.captcha);
  captcha.element.hidden = true;
  return captcha;
}

/** Make the field for the code of an authenticator app, hidden until it is required. */
export function totpField() {
  const totp = codeField();
  totp.element.hidden = true;
  return totp;
}

/** Make the field for a code of an authenticator app, or a recovery code. */
export function codeField(hint = t("login_totp_hint")) {
  return new Field("totp", t("login_totp"), { hint, inputmode: "numeric", autocomplete: "one-time-code" });
}

/**
 * Return the code that was typed, as requests have it.
 *
 * @param {Record<string, any>} values of a form
 * @returns {{ totp?: string }}
 */
export function secondFactor({ totp }) {
  return totp ? { totp: totp.replaceAll(" ", "") } : {};
}

/**
 * The message has the reason; the end of the ban is a field of its own.
 *
 * @param {import("./api.js").Refusal} refusal
 */
function banMessage({ message, body: { banExpiresAt } }) {
  return banExpiresAt ? `${message}\n${t("ban_until", { until: formatTime(banExpiresAt) })}` : message;
}
