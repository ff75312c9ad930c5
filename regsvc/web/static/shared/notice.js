// The notice at the top of every page, and countdowns.

import { linkContact } from "./config.js";
import { byId, icon, make, replaceContent } from "./dom.js";
import { formatWait, hasText, t } from "./i18n.js";

/** @type {Record<string, string>} */
const ICONS = { good: "i-circle-check", bad: "i-circle-alert", info: "i-info", wait: "i-circle-alert" };

const READ = 2000; // milliseconds, after which screen readers have been told

/**
 * Remove a text that is for screen readers alone as soon as it was read aloud: later it would be old, or be read twice.
 *
 * @param {Element} element
 */
export function clearOnceRead(element) {
  const text = element.textContent;
  setTimeout(() => element.textContent === text && element.replaceChildren(), READ);
}

/**
 * The message at the top of the page; screen readers read it aloud. `kind`: "", "good", "bad", "info", "wait" or
 * "spoken".
 */
export const notice = {
  element: byId("notice"),

  /**
   * Show a message where the last one was, or at the top of the page if that was beside the button of a form that is
   * gone.
   *
   * @param {string} text
   */
  show(text, kind = "") {
    if (!this.element.isConnected) {
      byId("inside").before(this.element);
    }
    replaceContent(this.element, text && ICONS[kind] && icon(ICONS[kind]), linkContact(text));
    this.element.dataset.kind = kind;
    if (kind === "spoken") {
      clearOnceRead(this.element);
    }
  },

  /**
   * Show a message and move the focus to it: nothing else that changed on the page would be noticed.
   *
   * @param {string} text
   */
  announce(text, kind = "good") {
    this.show(text, kind);
    this.element.focus();
  },

  /**
   * Show why a request was refused, and count down to when it can be repeated.
   *
   * @param {import("./api.js").Refusal} refusal
   */
  showRefusal(refusal) {
    if (refusal.isLoggedOut) {
      return; // the page shows its login, and says why
    }
    if (refusal.retryAfter) {
      this.showWait(refusal, refusal.retryAfter);
    } else {
      this.announce(refusal.message, "bad");
    }
  },

  /**
   * Show a refusal with the time until the request can be repeated, in its own sentence if there is one.
   *
   * @param {import("./api.js").Refusal} refusal
   * @param {number} wait seconds
   * @param {string} [key] of the sentence
   */
  showWait(refusal, wait, key) {
    const when = "\u0000";
    const [before, after] = waitSentence(refusal, when, key).split(when);
    const left = make("span", { "aria-live": "off" }); // reading each second aloud would be a nuisance
    this.show(before, "bad");
    this.element.append(left, after);
    countdown(wait, (seconds) => {
      if (!left.isConnected) {
        return false; // another message took its place
      }
      if (seconds === 0) {
        this.show(t("retry_now"), "bad");
      } else if (left.textContent !== formatWait(seconds)) {
        left.textContent = formatWait(seconds);
      }
      return true;
    });
    this.element.focus();
  },

  clear() {
    this.show("");
  },

  /**
   * Clear the notice if it still shows this text.
   *
   * @param {string} text
   */
  clearIf(text) {
    this.replace(text, "");
  },

  /**
   * Show another text if the notice still shows this one.
   *
   * @param {string} text
   * @param {string} next
   */
  replace(text, next) {
    if (this.element.textContent === text) {
      this.show(next);
    }
  },
};

/**
 * Return a refusal as a sentence that says when the request can be repeated, its own one if there is one.
 *
 * @param {import("./api.js").Refusal} refusal
 * @param {string} when within the sentence
 * @param {string} [key]
 */
export function waitSentence(
  { code, message, body },
  when,
  key = [`wait_${body.fault}`, `wait_${code}`].find(hasText),
) {
  return key === undefined ? `${message} (${when})` : t(key, { ...body, when });
}

/**
 * Call `show(secondsLeft)` now and every second until 0, or until it returns false.
 *
 * @param {number} seconds
 * @param {(secondsLeft: number) => unknown} show
 */
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
