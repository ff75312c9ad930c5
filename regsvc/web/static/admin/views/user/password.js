// A new password for a user: an operator sets one, mails the user a link, or makes a link to hand over.

import { asRefusal } from "../../../shared/api.js";
import { confirm } from "../../../shared/dialog.js";
import { button, make, replaceContent } from "../../../shared/dom.js";
import { Field, Form } from "../../../shared/form.js";
import { formatTime, t } from "../../../shared/i18n.js";
import { notice } from "../../../shared/notice.js";
import { passwordField } from "../../../shared/password-fields.js";
import { sendWithPassword } from "../../own-password.js";
import { may } from "../../permissions.js";
import { announceReply } from "../../send-change.js";

/** @typedef {import("../../view-context.js").ViewContext} ViewContext */

/**
 * @param {ViewContext} context
 * @param {string} name
 */
export function passwordSection(context, name) {
  const password = passwordField("password", t("password_new"), context.config, { autocomplete: "off" });
  const form = new Form({
    fields: [password],
    submit: t("password_set_now"),
    send: async (values) => {
      await send(context, { username: name, password: values.password });
      password.value = "";
    },
  });
  const isMailing = context.config.registration.passwordReset === "mail";
  const mail = button(t("password_mail"), () => mailLink(context, name), "quiet");
  const noMail = make("p", { class: "quiet-text" }, t("password_no_mail"));
  const shown = make("div", {});
  const element = make(
    "details",
    { class: "panel password-part" },
    make("summary", {}, t("password_part")),
    make("p", {}, t("password_about")),
    make(
      "div",
      { class: "buttons" },
      mail,
      button(t("password_link"), () => makeLink(context, name, shown), "quiet"),
    ),
    noMail,
    shown,
    form.element,
  );
  return {
    element,

    /** @param {UserDetails | null} user */
    update(user) {
      const hasEmail = typeof user?.email === "string";
      element.hidden = user === null || !may("users.manage");
      mail.hidden = !hasEmail || !isMailing;
      noMail.hidden = hasEmail || !isMailing;
    },
  };
}

/**
 * Make a link and show it, this once. One for a member of the team needs the operator's own password.
 *
 * @param {ViewContext} context
 * @param {string} username
 * @param {HTMLElement} shown
 */
async function makeLink(context, username, shown) {
  try {
    const post = (/** @type {{ currentPassword?: string, totp?: string }} */ own) =>
      context.api.post("admin/user/password-link", { username, ...own });
    const made = await post({}).catch((error) => {
      if (asRefusal(error).code === "current_password_needed") {
        return sendWithPassword(t("password_link"), post);
      }
      throw error;
    });
    if (made === null) {
      return;
    }
    const { link, expiresAt, message = "" } = made;
    const field = new Field("link", t("password_link_label", { name: username }), {
      value: link,
      hint: t("password_link_hint", { until: formatTime(expiresAt) }),
      autocomplete: "off",
      readonly: true,
      "aria-required": null,
    });
    const copy = async () => {
      await navigator.clipboard.writeText(link).then(
        () => notice.show(t("password_link_copied"), "good"),
        () => /** @type {HTMLInputElement} */ (field.input).select(), // only secure pages may write the clipboard
      );
    };
    replaceContent(shown, field.element, button(t("password_link_copy"), copy, "quiet"));
    notice.announce(message, "good");
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}

/**
 * @param {ViewContext} context
 * @param {string} username
 */
async function mailLink(context, username) {
  const options = { confirmText: t("password_mail"), kind: "" };
  if (!(await confirm(t("password_mail"), t("password_mail_sure", { name: username }), options))) {
    return;
  }
  try {
    await send(context, { username });
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}

/**
 * Throws a Refusal.
 *
 * @param {ViewContext} context
 * @param {PostBody<"admin/user/password">} body
 */
async function send(context, body) {
  announceReply(await context.api.post("admin/user/password", body));
}
