// A dialog that asks for confirmation.

import { button, make, uniqueId } from "./dom.js";
import { t } from "./i18n.js";

/**
 * Ask for confirmation; resolves to true when it was given. Escape and the other button mean no.
 *
 * @param {string} title
 * @param {string} text
 * @param {{ confirmText: string, kind?: string }} options
 * @returns {Promise<boolean>}
 */
export function confirm(title, text, { confirmText, kind = "danger" }) {
  const id = uniqueId("dialog");
  return new Promise((resolve) => {
    const no = button(t("cancel"), () => dialog.close(""), "quiet");
    no.autofocus = true; // pressing a key once too often does nothing
    const yes = button(confirmText, () => dialog.close("yes"), kind);
    const dialog = make(
      "dialog",
      { "aria-labelledby": id },
      make("h2", { id }, title),
      make("p", {}, text),
      make("div", { class: "buttons" }, yes, no),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
