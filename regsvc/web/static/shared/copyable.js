// A text, such as the address of the game, with a button that copies it.

import { button, icon, make } from "./dom.js";
import { t } from "./i18n.js";
import { notice } from "./notice.js";

/**
 * Make a text with its button.
 *
 * @param {string} text
 */
export function copyable(text) {
  const shown = make("code", {}, text);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      notice.show(t("copied"), "good");
    } catch {
      getSelection()?.selectAllChildren(shown); // only secure pages may write the clipboard
      notice.show(t("copy_selected"));
    }
  };
  const copies = button(t("copy"), copy);
  copies.prepend(icon("i-copy"));
  return make("span", { class: "copyable" }, shown, copies);
}
