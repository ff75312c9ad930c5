// The captcha, where the host requires one: a picture with a question, or a puzzle for the browser, which a worker
// solves while the visitor goes on.

import { Refusal } from "./api.js";
import { button, make } from "./dom.js";
import { Field } from "./form.js";
import { t } from "./i18n.js";
import { notice } from "./notice.js";

const RENEWED_BEFORE = 10; // seconds until it expires
const WORKER = document.body.dataset.captchaWorker; // undefined: this host offers only pictures

/** @typedef {"register" | "verify_send" | "login" | "forgot"} CaptchaUse */

/** @typedef {{ captchaToken: string | null, captchaAnswer: string }} Proof fields of a request that answer a captcha */

/** A field with its picture, or with a puzzle for the browser. `load()` or `renew()` gives it a challenge. */
export class CaptchaField extends Field {
  /**
   * @param {import("./api.js").Api} api
   * @param {Config["captcha"]} captcha
   */
  constructor(api, { type }) {
    super("captchaAnswer", t(type === "text" ? "captcha_answer_text" : "captcha_answer_math"), {
      hint: t(type === "text" ? "captcha_hint_text" : "captcha_hint_math"),
      inputmode: type === "text" ? "text" : "numeric",
      autocomplete: "off",
    });
    this.api = api;
    /** @type {string | null} */
    this.token = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.expiry = undefined;
    /** @type {Promise<Solution> | null} */
    this.solution = null;
    this.picture = make("img", { class: "captcha", alt: t("captcha_picture") });
    this.element.prepend(this.picture);
    this.another = button(t("captcha_other"), () => this.load(), "plain");
    this.progress = make("p", { class: "hint", role: "status" });
    this.element.append(this.progress, this.another);
    const change = () => {
      this.show(!this.isWork);
      this.load();
    };
    this.change = button("", change, "plain");
    if (WORKER) {
      this.element.append(this.change);
    }
    this.isWork = type === "work" && Boolean(WORKER);
    this.show(this.isWork);
  }

  /** @param {boolean} isWork whether the browser solves a puzzle instead of the visitor */
  show(isWork) {
    this.isWork = isWork;
    this.solution = null;
    for (const element of [this.picture, this.label, this.input, this.hint, this.another]) {
      element.hidden = isWork;
    }
    this.progress.textContent = "";
    this.change.textContent = t(isWork ? "captcha_use_picture" : "captcha_work");
    this.showError("");
  }

  /** Load another challenge, for which nobody has to wait: its place is there. A refusal is shown. */
  load() {
    return this.renew().catch((refusal) => notice.showRefusal(refusal));
  }

  /** Load another challenge. Throws a Refusal. */
  async renew() {
    if (this.isWork) {
      this.solve();
    } else {
      await this.loadPicture();
    }
  }

  /** Load another picture, and again shortly before it expires, for as long as it is shown. Throws a Refusal. */
  async loadPicture() {
    const { token, image, expiresInSeconds } = await this.api.get("captcha/generate");
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.renewIfShown(), Math.max(1, expiresInSeconds - RENEWED_BEFORE) * 1000);
    this.token = token;
    this.picture.src = image;
    this.value = "";
  }

  async renewIfShown() {
    if (this.element.isConnected && !this.isWork) {
      await this.loadPicture().catch(() => {}); // the button for another picture is still there
    }
  }

  /** Begin to solve a puzzle, and fall back on the picture if that fails. */
  solve() {
    const solution = solvePuzzle(this.api);
    this.solution = solution;
    this.progress.textContent = t("captcha_working");
    const isCurrent = () => this.solution === solution;
    solution.then(
      () => isCurrent() && this.progress.replaceChildren(t("captcha_solved")),
      (refusal) => {
        if (isCurrent()) {
          this.show(false);
          notice.showRefusal(refusal);
          this.loadPicture().catch(() => {}); // the button for another picture is still there
        }
      },
    );
    return solution;
  }

  /** Return the fields of a request that answer the captcha. Throws a Refusal. */
  async proof() {
    if (!this.isWork) {
      return { captchaToken: this.token, captchaAnswer: this.value };
    }
    const begun = await (this.solution ?? this.solve());
    return (begun.until > Date.now() ? begun : await this.solve()).proof;
  }

  validate() {
    return this.isWork ? "" : super.validate();
  }

  focus() {
    (this.isWork ? this.change : this.input).focus();
  }
}

/** @typedef {{ proof: Proof, until: number }} Solution */

/**
 * Let a worker solve a puzzle, which takes it some seconds at most. Throws a Refusal.
 *
 * @param {import("./api.js").Api} api
 * @returns {Promise<Solution>}
 */
async function solvePuzzle(api) {
  const { token, salt, hash, maxNumber, expiresInSeconds } = await api.get("captcha/work");
  const until = Date.now() + (expiresInSeconds - RENEWED_BEFORE) * 1000;
  const number = await new Promise((resolve, reject) => {
    const worker = new Worker(WORKER ?? "");
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = () => reject(new Refusal(0, { message: t("captcha_failed") }));
    worker.postMessage({ salt, hash, maxNumber });
  });
  return { proof: { captchaToken: token, captchaAnswer: String(number) }, until };
}

/**
 * Return whether the host requires a captcha for this use.
 *
 * @param {CaptchaUse} use
 * @param {Config} config
 */
export function requiresCaptcha(use, config) {
  return config.captcha.requiredFor.includes(use);
}

/**
 * Return the captcha of a form whose one request spends the answer, or null where none is required. It loads while the
 * form is shown.
 *
 * Call `renewAfter` in the form's `onRefusal`.
 *
 * @param {CaptchaUse} use
 * @param {import("./api.js").Api} api
 * @param {Config} config
 */
export function captchaFor(use, api, config) {
  if (!requiresCaptcha(use, config)) {
    return null;
  }
  const field = new CaptchaField(api, config.captcha);
  field.load();
  return field;
}

/**
 * Load a new picture after a refusal, keeping the message. Without an answer the picture stays: the attempt goes on.
 *
 * @param {import("./api.js").Refusal} refusal
 * @param {CaptchaField | null} captcha
 */
export async function renewAfter(refusal, captcha) {
  if (captcha === null || refusal.status === 0) {
    return;
  }
  await captcha.renew().catch(() => {}); // the button for another picture is still there
  if (refusal.field === captcha.name) {
    captcha.showError(refusal.message);
  }
}
