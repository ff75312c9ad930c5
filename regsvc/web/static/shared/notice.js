// Small pieces of interface: the notice at the top, a countdown, a question in a dialog, the steps of a long way.

import { button, freshId, make } from "./dom.js";
import { word } from "./i18n.js";

/** What the page has to say; screen readers read it out. */
export const notice = {
  element: document.getElementById("notice"),

  say(text, kind = "") {
    this.element.textContent = text;
    this.element.dataset.kind = kind;
  },

  /** Say it and go there: nothing else on the page has changed that one would notice. */
  tell(text, kind = "good") {
    this.say(text, kind);
    this.element.focus();
  },

  /** Tell why something was not done, and when it can be tried again. */
  refuse(refusal) {
    if (refusal.isLoggedOut) {
      return; // the page has turned to its login, and says so
    }
    this.tell(refusal.message, "bad");
    if (refusal.retryAfter) {
      const left = make("span", { "aria-live": "off" }); // nobody wants each second read out
      this.element.append(" ", left);
      countdown(refusal.retryAfter, (seconds) => {
        if (!left.isConnected) {
          return false; // something else was said meanwhile
        }
        left.textContent = word("retry_in", { seconds });
        if (seconds === 0) {
          this.say(word("retry_now"), "bad");
        }
        return true;
      });
    }
  },

  clear() {
    this.say("");
  },

  /** Clear it unless something else was said meanwhile. */
  forget(text) {
    if (this.element.textContent === text) {
      this.clear();
    }
  },
};

/** Call `show(seconds left)` now and every second until 0; it may end it earlier by coming back with false. */
export function countdown(seconds, show) {
  const end = Date.now() + seconds * 1000;
  const tick = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    if (show(left) === false || left === 0) {
      clearInterval(timer);
    }
  };
  const timer = setInterval(tick, 1000);
  tick();
}

/** Ask before something is done. `true` when it was agreed to. Escape, and the other button, mean no. */
export function confirm(title, text, { agree, kind = "danger" }) {
  const id = freshId("dialog");
  return new Promise((resolve) => {
    const no = button(word("cancel"), () => dialog.close(""), "quiet");
    no.autofocus = true; // a key pressed too often does nothing
    const dialog = make(
      "dialog",
      { "aria-labelledby": id },
      make("h2", { id }, title),
      make("p", {}, text),
      make(
        "div",
        { class: "buttons" },
        button(agree, () => dialog.close("yes"), kind),
        no,
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** How far one is on a way of `count` steps; `current` counts from 0. */
export function steps(count, current) {
  const places = Array.from({ length: count }, (_nothing, place) => make("span", { class: place <= current ? "done" : null }));
  return make(
    "div",
    { class: "steps" },
    make("p", {}, word("step", { step: current + 1, steps: count })),
    make("div", { class: "bar", "aria-hidden": "true" }, places),
  );
}

/** A list of names and values; entries whose value is null or "" are left out. */
export function facts(entries) {
  const told = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("dl", {}, told.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}
