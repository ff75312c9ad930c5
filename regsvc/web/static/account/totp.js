// Two-step verification: setting it up with an authenticator app, its recovery codes, and turning it off.

import { asRefusal } from "../shared/api.js";
import { confirm } from "../shared/dialog.js";
import { button, link, make, replaceContent } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { codeField } from "../shared/login.js";
import { notice } from "../shared/notice.js";
import { currentPasswordField } from "./password.js";

/** @type {AccountSection} */
export const totpSection = {
  title: "totp_title",
  isShown: () => true,

  async render(account) {
    const container = make("div", {});
    await show(account, container);
    return container;
  },
};

/**
 * Show whether it is on, and what can be done. Throws a Refusal.
 *
 * @param {Account} account
 * @param {HTMLElement} container
 */
async function show(account, container) {
  const state = await account.api.get("user/totp");
  if (!state.enabled) {
    const about = t(state.required ? "totp_about_required" : "totp_about");
    replaceContent(container, make("p", {}, about), beginForm(account, container).element);
    return;
  }
  replaceContent(
    container,
    make("p", {}, t(state.inGame ? "totp_on_in_game" : "totp_on")),
    make("p", {}, t("recovery_left", { count: state.recoveryCodesLeft })),
    part("recovery_new", t("recovery_new_about"), replaceForm(account, container)),
    part("totp_turn_off", t("totp_turn_off_about"), turnOffForm(account, container)),
  );
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
 * @param {HTMLElement} container
 */
function beginForm(account, container) {
  return new Form({
    fields: [currentPasswordField()],
    submit: t("totp_begin"),
    send: async ({ currentPassword }) => {
      const entry = await account.api.post("user/totp/begin", { currentPassword });
      const form = confirmForm(account, container, currentPassword);
      replaceContent(container, renderEntry(entry), form.element);
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
 * @param {HTMLElement} container
 * @param {string} currentPassword
 */
function confirmForm(account, container, currentPassword) {
  return new Form({
    fields: [codeField(t("totp_confirm_hint"))],
    submit: t("totp_turn_on"),
    send: async ({ totp }) => {
      const { message = "", ...reply } = await account.api.post("user/totp/confirm", { currentPassword, totp });
      const inGame = reply.inGame && make("p", {}, t("totp_in_game"));
      showCodes(account, container, reply.recoveryCodes, inGame);
      notice.announce(message);
    },
  });
}

/**
 * Show recovery codes, this once.
 *
 * @param {Account} account
 * @param {HTMLElement} container
 * @param {string[]} codes
 * @param {Child} [others]
 */
function showCodes(account, container, codes, others = null) {
  const done = () => show(account, container).catch((error) => notice.showRefusal(asRefusal(error)));
  const list = codes.map((code) => make("li", {}, make("code", {}, code)));
  replaceContent(
    container,
    make("p", {}, t("recovery_about")),
    make("ul", { class: "recovery-codes" }, list),
    others,
    button(t("recovery_kept"), done, ""),
  );
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
function replaceForm(account, container) {
  return new Form({
    fields: [currentPasswordField(), codeField()],
    submit: t("recovery_new"),
    kind: "quiet",
    send: async ({ currentPassword, totp }) => {
      const reply = await account.api.post("user/totp/recovery-codes", { currentPassword, totp });
      showCodes(account, container, reply.recoveryCodes);
      notice.announce(reply.message ?? "");
    },
  });
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
function turnOffForm(account, container) {
  return new Form({
    fields: [currentPasswordField(), codeField()],
    submit: t("totp_turn_off"),
    kind: "danger",
    send: async ({ currentPassword, totp }) => {
      const options = { confirmText: t("totp_turn_off") };
      if (await confirm(t("totp_turn_off_sure"), t("totp_turn_off_about"), options)) {
        const { message = "" } = await account.api.post("user/totp/off", { currentPassword, totp });
        await show(account, container);
        notice.announce(message);
      }
    },
  });
}
