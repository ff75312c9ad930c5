// Keyboard shortcuts: single keys, outside of fields and dialogs. `?` lists them; they can be switched off, for people
// who use speech input and do not want their words to press keys.

import { button, make, uniqueId } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { recall, store } from "./browser-storage.js";

const FIELDS = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=button])";
/** @type {Record<string, string>} */
const KEY_NAMES = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };

/**
 * @typedef {object} Binding
 * @property {string} label the key of the text that describes it
 * @property {Record<string, unknown>} [values] of that text
 * @property {() => unknown} action
 * @property {boolean} [repeats] whether holding the key down repeats the action
 */

/** @typedef {Record<string, Binding>} Bindings by their keys, separated by spaces: "j ArrowDown" */

export class Keyboard {
  constructor() {
    /** @type {Array<{ title: string, bindings: Bindings }>} the latest first, as it has precedence */
    this.layers = [];
    document.addEventListener("keydown", (event) => this.handleKey(event));
  }

  /**
   * Add bindings; returns a function that removes them.
   *
   * @param {string} title the key of their heading in the help
   * @param {Bindings} bindings
   */
  add(title, bindings) {
    const layer = { title, bindings };
    this.layers.unshift(layer);
    return () => {
      this.layers = this.layers.filter((other) => other !== layer);
    };
  }

  get isEnabled() {
    return recall("keys", true);
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing && !event.defaultPrevented;
    const target = /** @type {Element} */ (event.target);
    if (!isPlain || !this.isEnabled || target.closest?.(FIELDS) || document.querySelector("dialog[open]")) {
      return;
    }
    const binding = this.find(keyOf(event));
    if (binding) {
      event.preventDefault();
      if (binding.repeats || !event.repeat) {
        binding.action();
      }
    }
  }

  /** @param {string} key */
  find(key) {
    for (const { bindings } of this.layers) {
      const found = Object.entries(bindings).find(([keys]) => keys.split(" ").includes(key));
      if (found) {
        return found[1];
      }
    }
    return null;
  }

  /** Show the dialog that lists the shortcuts. */
  show() {
    const id = uniqueId("keys");
    const isEnabled = make("input", {
      type: "checkbox",
      onchange: (/** @type {{ target: HTMLInputElement }} */ { target }) => store("keys", target.checked),
    });
    isEnabled.checked = this.isEnabled;
    const lists = this.layers.map(({ title, bindings }) => [
      make("h3", {}, t(title)),
      make("dl", {}, Object.entries(bindings).map(renderBinding)),
    ]);
    /** @type {HTMLDialogElement} */
    const dialog = make(
      "dialog",
      { class: "keys", "aria-labelledby": id, onclose: () => dialog.remove() },
      make("h2", { id, tabindex: "-1", autofocus: true }, t("keys_title")), // else a phone scrolls to the end
      lists,
      make("label", { class: "option" }, isEnabled, make("span", {}, t("keys_on"))),
      make(
        "div",
        { class: "buttons" },
        button(t("close"), () => dialog.close(), ""),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  }
}

/** @param {[string, Binding]} entry */
function renderBinding([keys, binding]) {
  const names = keys.split(" ").map((key) => make("kbd", {}, KEY_NAMES[key] ?? key));
  return make("div", {}, make("dt", {}, names), make("dd", {}, t(binding.label, binding.values)));
}

/**
 * Return the key of an event. On keyboards without Latin letters, keys are identified by their position; Caps Lock is
 * ignored.
 *
 * @param {KeyboardEvent} event
 */
function keyOf({ key, code, shiftKey }) {
  const letter = key.length === 1 && !/^[!-~]$/.test(key) && code.startsWith("Key") ? code.slice(3) : key;
  return letter.length === 1 && !shiftKey ? letter.toLowerCase() : letter;
}
