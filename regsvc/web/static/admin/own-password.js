// The dialog that asks members of the team for their own password, before they make what outlives their session.

import { asRefusal } from "../shared/api.js";
import { button, make, uniqueId } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { formatWait, t } from "../shared/i18n.js";
import { secondFactor, totpField } from "../shared/login.js";
import { waitSentence } from "../shared/notice.js";

/**
 * Ask for one's own password, and send a request with it; resolves to the reply, or to null if that was cancelled.
 *
 * What is refused about the password or the code is shown there, and the dialog stays. Throws any other Refusal. The
 * password goes with the dialog.
 *
 * @template Reply
 * @param {string} title also that of the button which sends the request
 * @param {(own: { currentPassword: string, totp?: string }) => Promise<Reply>} send
 * @returns {Promise<Reply | null>}
 */
export function sendWithPassword(title, send) {
  const id = uniqueId("dialog");
  return new Promise((resolve, reject) => {
    const options = { type: "password", autocomplete: "current-password" };
    const password = new Field("currentPassword", t("own_password"), options);
    const totp = totpField();
    const fields = [password, totp];
    const form = new Form({
      fields,
      submit: title,
      send: async ({ currentPassword, ...values }) => {
        try {
          resolve(await send({ currentPassword, ...secondFactor(values) }));
        } catch (error) {
          const { code, field } = asRefusal(error);
          if (dialog.open && (code === "rate_limited" || fields.some(({ name }) => name === field))) {
            throw error;
          }
          reject(error);
        }
        dialog.close();
      },
      onRefusal: (refusal) => {
        if (refusal.code !== "rate_limited") {
          totp.element.hidden &&= refusal.code !== "totp_required";
          return false;
        }
        const wait = refusal.retryAfter ?? 1;
        password.showError(waitSentence(refusal, formatWait(wait))); // a notice would be behind the dialog
        password.focus();
        form.hold(wait);
        return true;
      },
    });
    const cancel = button(t("cancel"), () => dialog.close(), "quiet");
    form.element.append(make("div", { class: "buttons" }, form.submit, cancel));
    /** @type {HTMLDialogElement} */
    const dialog = make(
      "dialog",
      { "aria-labelledby": id },
      make("h2", { id }, title),
      make("p", {}, t("own_password_why")),
      form.element,
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (!form.isBusy) {
        resolve(null); // else the request is under way, and what it makes is shown once
      }
    });
    document.body.append(dialog);
    dialog.showModal();
    password.focus();
  });
}
