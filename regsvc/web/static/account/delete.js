// Leaving for good.

import { make } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { totpField } from "../shared/login.js";
import { confirm, notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";
import { currentPasswordField } from "./password.js";

export const deleteSection = {
  title: "delete_title",
  isThere: () => true,

  draw({ api, user, leave }) {
    const totp = totpField();
    const form = new Form({
      fields: [currentPasswordField(), totp],
      submit: word("delete_for_good"),
      kind: "danger",
      send: async (values) => {
        const title = word("delete_sure", { username: user.username });
        if (!(await confirm(title, word("delete_about"), { agree: word("delete_for_good") }))) {
          return;
        }
        const second = values.totp ? { totp: values.totp.replaceAll(" ", "") } : {};
        const { message } = await api.post("user/delete", { currentPassword: values.currentPassword, ...second });
        await leave(message);
      },
      onRefusal: (refusal) => {
        if (refusal.code !== "totp_required" || !totp.element.hidden) {
          return false;
        }
        totp.element.hidden = false;
        notice.say(refusal.message);
        totp.focus();
        return true;
      },
    });
    return [make("p", {}, word("delete_about")), form.element];
  },
};
