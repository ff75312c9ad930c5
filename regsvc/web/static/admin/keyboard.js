// Single keys that do something, outside of fields and dialogs. `?` shows them; they can be switched off, for people
// who speak to their computer and do not want their words to press keys.

import { button, freshId, make } from "../shared/dom.js";
import { word } from "../shared/i18n.js";
import { keep, recall } from "./browser-storage.js";

const FIELDS = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=button])";
const NAMES = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };

/**
 * Listens to keys. Bindings: `{ "j ArrowDown": { word: "key_next", action, repeats: true } }`; the keys that mean the
 * same stand together, `word` says what they do, and with `repeats` a key that is held down goes on. What was added
 * last is asked first.
 */
export class Keys {
  constructor() {
    this.layers = [];
    document.addEventListener("keydown", (event) => this.hear(event));
  }

  /** `title`: the word above them in the help. Comes back with a function that takes them away again. */
  add(title, bindings) {
    const layer = { title, bindings };
    this.layers.unshift(layer);
    return () => {
      this.layers = this.layers.filter((other) => other !== layer);
    };
  }

  get areOn() {
    return recall("keys", true);
  }

  hear(event) {
    const isOurs = !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing && !event.defaultPrevented;
    if (!isOurs || !this.areOn || event.target.closest?.(FIELDS) || document.querySelector("dialog[open]")) {
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

  find(key) {
    for (const { bindings } of this.layers) {
      const found = Object.entries(bindings).find(([names]) => names.split(" ").includes(key));
      if (found) {
        return found[1];
      }
    }
    return null;
  }

  /** The dialog that tells them. */
  show() {
    const id = freshId("keys");
    const areOn = make("input", { type: "checkbox", onchange: ({ target }) => keep("keys", target.checked) });
    areOn.checked = this.areOn;
    const dialog = make(
      "dialog",
      { class: "keys", "aria-labelledby": id, onclose: () => dialog.remove() },
      make("h2", { id, tabindex: "-1", autofocus: true }, word("keys_title")), // else a phone begins at the end
      this.layers.map(({ title, bindings }) => [make("h3", {}, word(title)), make("dl", {}, Object.entries(bindings).map(line))]),
      make("label", { class: "option" }, areOn, make("span", {}, word("keys_on"))),
      make("div", { class: "buttons" }, button(word("close"), () => dialog.close(), "")),
    );
    document.body.append(dialog);
    dialog.showModal();
  }
}

function line([names, binding]) {
  const keys = names.split(" ").map((name) => make("kbd", {}, NAMES[name] ?? name));
  return make("div", {}, make("dt", {}, keys), make("dd", {}, word(binding.word, binding.facts)));
}

/** Letters of a keyboard that has no Latin ones are told by their place; a Caps Lock that was forgotten means nothing. */
function keyOf({ key, code, shiftKey }) {
  const letter = key.length === 1 && !/^[!-~]$/.test(key) && code.startsWith("Key") ? code.slice(3) : key;
  return letter.length === 1 && !shiftKey ? letter.toLowerCase() : letter;
}
