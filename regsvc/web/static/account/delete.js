// Deleting one's own account.

import { confirm } from "../shared/dialog.js";
import { make } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { secondFactor, totpField } from "../shared/login.js";
import { notice } from "../shared/notice.js";
import { currentPasswordField } from "./password.js";

/** @type {AccountSection} */
export function renderDelete({ api, user, leave }) {
  const totp = totpField();
  const form = new Form({
    fields: [currentPasswordField(), totp],
    submit: t("delete_for_good"),
    kind: "danger",
    send: async (values) => {
      const title = t("delete_sure", { username: user.username });
      if (!(await confirm(title, t("delete_about"), { confirmText: t("delete_for_good") }))) {
        return;
      }
      const { message = "" } = await api.post("user/delete", {
        currentPassword: values.currentPassword,
        ...secondFactor(values),
      });
      leave(message);
    },
    onRefusal: (refusal) => {
      if (refusal.code !== "totp_required" || !totp.element.hidden) {
        return false;
      }
      totp.element.hidden = false;
      notice.show(refusal.message);
      totp.focus();
      return true;
    },
  });
  return [make("p", {}, t("delete_about")), form.element];
}
