// Changing the password, which ends every session.

import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { passwordField } from "../shared/password-fields.js";

/** @type {AccountSection} */
export const passwordSection = {
  title: "password_title",
  isShown: () => true,

  render({ api, config, user, leave }) {
    const password = passwordField("newPassword", t("password_new"), config, {
      also: (value) => (value.toLowerCase() === user.username.toLowerCase() ? t("password_is_name") : ""),
    });
    const form = new Form({
      fields: [currentPasswordField(), password],
      submit: t("password_change"),
      send: async ({ currentPassword, newPassword }) => {
        const { message = "" } = await api.post("user/password", { currentPassword, newPassword });
        leave(message);
      },
    });
    return form.element;
  },
};

/** Make the field that confirms who is logged in. */
export function currentPasswordField() {
  return new Field("currentPassword", t("password_current"), { type: "password", autocomplete: "current-password" });
}
