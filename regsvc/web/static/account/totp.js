// Two-step verification: setting it up with an authenticator app, its recovery codes, and turning it off.

import { asRefusal } from "../shared/api.js";
import { confirm } from "../shared/dialog.js";
import { button, link, make } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { codeField } from "../shared/login.js";
import { notice } from "../shared/notice.js";
import { recallAnswer } from "../shared/recall.js";
import { currentPasswordField } from "./password.js";

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
export async function renderTotp(account, place) {
  const state = await account.api.get("user/totp");
  if (!state.enabled) {
    const about = t(state.required ? "totp_about_required" : "totp_about");
    return [make("p", {}, about), beginForm(account, place).element];
  }
  const { api } = account;
  const made = (await recallAnswer(api, "user/totp/confirm")) ?? (await recallAnswer(api, "user/totp/recovery-codes"));
  if (made !== null) {
    return renderCodes(place, made.recoveryCodes); // they were made, and not shown yet
  }
  return [
    make("p", {}, t(state.inGame ? "totp_on_in_game" : "totp_on")),
    make("p", {}, t("recovery_left", { count: state.recoveryCodesLeft })),
    part("recovery_new", t("recovery_new_about"), replaceForm(account, place)),
    part("totp_turn_off", t("totp_turn_off_about"), turnOffForm(account, place)),
  ];
}

/**
 * @param {string} title
 * @param {string} about
 * @param {Form} form
 */
function part(title, about, form) {
  return make("details", {}, make("summary", {}, t(title)), make("p", {}, about), form.element);
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
function beginForm(account, place) {
  return new Form({
    fields: [currentPasswordField()],
    submit: t("totp_begin"),
    send: async ({ currentPassword }) => {
      const entry = await account.api.post("user/totp/begin", { currentPassword });
      const form = confirmForm(account, place, currentPassword);
      place.show(renderEntry(entry), form.element);
      form.fields[0].focus();
    },
  });
}

/** @param {{ secret: string, uri: string, image: string }} entry of the app */
function renderEntry({ secret, uri, image }) {
  const groups = secret.match(/.{1,4}/g) ?? [];
  return [
    make("p", {}, t("totp_scan")),
    make("img", { class: "qr-code", src: image, alt: t("totp_picture") }),
    make("p", {}, t("totp_type"), " ", make("code", { class: "secret" }, groups.join(" "))),
    make("p", {}, link(uri, t("totp_open"))),
  ];
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 * @param {string} currentPassword
 */
function confirmForm(account, place, currentPassword) {
  return new Form({
    fields: [codeField(t("totp_confirm_hint"))],
    submit: t("totp_turn_on"),
    send: async ({ totp }) => {
      const { message = "", ...reply } = await account.api.post("user/totp/confirm", { currentPassword, totp });
      const inGame = reply.inGame && make("p", {}, t("totp_in_game"));
      place.show(renderCodes(place, reply.recoveryCodes, inGame));
      notice.announce(message);
    },
  });
}

/**
 * Render recovery codes, this once.
 *
 * @param {SectionPlace} place
 * @param {string[]} codes
 * @param {Child} [others]
 */
function renderCodes(place, codes, others = null) {
  const done = () => place.renderAgain().catch((error) => notice.showRefusal(asRefusal(error)));
  const list = codes.map((code) => make("li", {}, make("code", {}, code)));
  return [
    make("p", {}, t("recovery_about")),
    make("ul", { class: "recovery-codes" }, list),
    others,
    button(t("recovery_kept"), done, ""),
  ];
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
function replaceForm(account, place) {
  return new Form({
    fields: [currentPasswordField(), codeField()],
    submit: t("recovery_new"),
    kind: "quiet",
    send: async ({ currentPassword, totp }) => {
      const reply = await account.api.post("user/totp/recovery-codes", { currentPassword, totp });
      place.show(renderCodes(place, reply.recoveryCodes));
      notice.announce(reply.message ?? "");
    },
  });
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
function turnOffForm(account, place) {
  return new Form({
    fields: [currentPasswordField(), codeField()],
    submit: t("totp_turn_off"),
    kind: "danger",
    send: async ({ currentPassword, totp }) => {
      const options = { confirmText: t("totp_turn_off") };
      if (await confirm(t("totp_turn_off_sure"), t("totp_turn_off_about"), options)) {
        const { message = "" } = await account.api.post("user/totp/off", { currentPassword, totp });
        await place.renderAgain();
        notice.announce(message);
      }
    },
  });
}
