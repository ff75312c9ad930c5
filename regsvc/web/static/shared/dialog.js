// Dialogs that ask for confirmation, or for one of several choices.

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
export async function confirm(title, text, { confirmText, kind = "danger" }) {
  return (await choose(title, text, [{ value: "yes", text: confirmText, kind }])) !== null;
}

/**
 * Ask for one of several choices; resolves to its value, or to null if the dialog was cancelled.
 *
 * @template {string} Value
 * @param {string} title
 * @param {string} text
 * @param {Array<{ value: Value, text: string, hint?: string, kind: string }>} choices
 * @returns {Promise<Value | null>}
 */
export function choose(title, text, choices) {
  const id = uniqueId("dialog");
  return new Promise((resolve) => {
    const no = button(t("cancel"), () => dialog.close(""), "quiet");
    no.autofocus = true; // pressing a key once too often does nothing
    /** @type {HTMLElement[]} */
    const buttons = choices.map((choice) => button(choice.text, () => dialog.close(choice.value), choice.kind));
    const hints = choices.map((choice) => choice.hint && make("p", {}, make("b", {}, choice.text), `: ${choice.hint}`));
    const dialog = make(
      "dialog",
      { "aria-labelledby": id, "aria-describedby": `${id}-text` },
      make("h2", { id }, title),
      make("p", { id: `${id}-text` }, text),
      hints,
      make("div", { class: "buttons" }, buttons, no),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(choices.find(({ value }) => value === dialog.returnValue)?.value ?? null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
