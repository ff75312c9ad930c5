// Another password. Every session ends with it.

import { Field, Form } from "../shared/form.js";
import { passwordField, repeatField } from "../shared/password-fields.js";
import { word } from "../shared/i18n.js";

export const passwordSection = {
  title: "password_title",
  isThere: () => true,

  draw({ api, config, user, leave }) {
    const current = currentPasswordField();
    const password = passwordField("newPassword", word("password_new"), config, {
      also: (value) => (value.toLowerCase() === user.username.toLowerCase() ? word("password_is_name") : ""),
    });
    const form = new Form({
      fields: [current, password, repeatField(password)],
      submit: word("password_change"),
      send: async ({ currentPassword, newPassword }) => {
        const { message } = await api.post("user/password", { currentPassword, newPassword });
        await leave(message);
      },
    });
    return form.element;
  },
};

/** What proves once more who it is. */
export function currentPasswordField() {
  return new Field("currentPassword", word("password_current"), { type: "password", autocomplete: "current-password" });
}
