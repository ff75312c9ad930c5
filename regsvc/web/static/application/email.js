// A mistyped e-mail address, which nothing has proven, can be corrected while the application waits.

import { captchaFor, renewAfter } from "../shared/captcha.js";
import { config } from "../shared/config.js";
import { make, replaceContent } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @param {import("./answers.js").Parts} parts */
export function emailSection(parts) {
  if (!parts.application.canCorrectEmail) {
    return null;
  }
  const container = make("div", { class: "section" });
  const show = () => replaceContent(container, addressForm(parts));
  const ontoggle = (/** @type {{ target: HTMLDetailsElement }} */ { target }) =>
    target.open && !container.hasChildNodes() && show();
  return make(
    "details",
    { ontoggle },
    make("summary", {}, t(parts.application.email ? "email_wrong" : "email_add")),
    container,
  );
}

/** @param {import("./answers.js").Parts} parts */
function addressForm({ api, application, onNewToken }) {
  const captcha = captchaFor("verify_send", api, config);
  const address = new Field("email", t("email_right"), {
    type: "email",
    autocomplete: "email",
    inputmode: "email",
    value: application.email ?? "",
  });
  return new Form({
    fields: captcha === null ? [address] : [address, captcha],
    submit: t("email_correct"),
    send: async (values) => {
      const email = values.email.trim();
      const { applicationToken } = await api.post("application/email", {
        email,
        ...(await captcha?.proof()),
      });
      await onNewToken(applicationToken);
      notice.announce(t("email_corrected"));
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      return false;
    },
  }).element;
}
