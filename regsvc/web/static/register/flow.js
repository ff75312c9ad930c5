// The flow through the steps. The request is sent at the end; its refusals lead back to the step that can correct them.

import { asRefusal } from "../shared/api.js";
import { CaptchaField, renewAfter, requiresCaptcha } from "../shared/captcha.js";
import { button, make } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { showSection } from "../shared/page.js";
import { showResult } from "./result.js";

export class Flow {
  /**
   * @param {object} parts
   * @param {import("../shared/api.js").Api} parts.api
   * @param {Config} parts.config
   * @param {import("./draft.js").Draft} parts.draft
   * @param {Step[]} parts.steps those that this host requires
   */
  constructor({ api, config, draft, steps }) {
    this.api = api;
    this.config = config;
    this.draft = draft;
    this.steps = steps;
    this.index = 0;
    this.isCorrecting = false; // on the way back from the end: after this step the request is sent again
    this.captcha = requiresCaptcha("register", config) ? new CaptchaField(api, config.captcha) : null;
  }

  /** Begin where the draft was left, but not after the step for the password, which is not stored. */
  async begin() {
    const left = this.steps.findIndex((step) => step.id === this.draft.get("step"));
    const name = this.steps.findIndex((step) => step.id === "name");
    await this.show(Math.min(Math.max(0, left), name), { isFirst: true });
  }

  get isLast() {
    return this.isCorrecting || this.index === this.steps.length - 1;
  }

  /**
   * Make the form of a step: its button goes on to the next one, or registers after the last. `send(values)` does what
   * the step itself needs.
   *
   * @param {Omit<import("../shared/form.js").FormOptions, "submit" | "send">
   *   & { send?: import("../shared/form.js").FormOptions["send"] }} options
   */
  form({ fields, send = () => {}, others = [], onRefusal = () => false }) {
    const captcha = this.index === this.steps.length - 1 ? this.captcha : null;
    return new Form({
      fields: captcha === null ? fields : [...fields, captcha],
      submit: t(this.isLast ? "register" : "next"),
      others,
      send: async ({ captchaAnswer: _answer, ...values }) => {
        this.draft.update(values);
        await send(values);
        await this.next();
      },
      onRefusal,
    });
  }

  /**
   * Show a step and return its form. Throws a Refusal and stays at the current step if the new one cannot be loaded.
   *
   * @param {number} index
   */
  async show(index, { isFirst = false } = {}) {
    const before = this.index;
    this.index = index;
    try {
      if (this.captcha !== null && index === this.steps.length - 1 && !this.isCorrecting) {
        await this.captcha.renew();
      }
      const rendered = await this.steps[index].render(this);
      this.render(rendered, isFirst);
      return rendered.form;
    } catch (refusal) {
      this.index = before;
      throw refusal;
    }
  }

  /**
   * @param {RenderedStep} step
   * @param {boolean} isFirst
   */
  render({ form, above = [], below = [] }, isFirst) {
    const { index, draft, steps } = this;
    draft.form = form;
    draft.update({ step: steps[index].id });
    const title = make("h2", {}, t(`step_${steps[index].id}`));
    const back = index > 0 && button(t("back"), () => this.back(), "plain");
    showSection(null, renderProgress(steps.length, index), title, above, form.element, below, back);
    showAnnouncement(index === 0);
    if (!isFirst) {
      form.fields[0]?.focus();
    }
  }

  async back() {
    notice.clear();
    if (this.draft.form !== null) {
      this.draft.update(this.draft.form.values);
    }
    this.isCorrecting = false;
    await this.show(this.index - 1).catch((refusal) => notice.showRefusal(refusal));
  }

  async next() {
    const codeStep = this.steps.findIndex((step) => step.id === "code");
    if (this.isCorrecting && codeStep >= 0 && !this.draft.get("code")) {
      await this.show(codeStep); // another address needs its own code
    } else if (this.isLast) {
      await this.register().catch((error) => this.showRefusal(asRefusal(error)));
    } else {
      notice.clear();
      await this.show(this.index + 1);
    }
  }

  async register() {
    const { draft, config } = this;
    const password = draft.get("password");
    const questionnaire = draft.get("questionnaire");
    const reply = await this.api.post("register", {
      username: draft.get("username"),
      ...(draft.get("email") ? { email: draft.get("email") } : {}),
      ...(draft.get("code") ? { code: draft.get("code") } : {}),
      ...(password ? { password } : {}),
      ...(draft.get("platform") ? { platform: [draft.get("platform")].flat()[0] } : {}),
      ...(questionnaire ? { questionnaire: { token: questionnaire.token } } : {}),
      ...(draft.get("linkToken") ? { linkToken: draft.get("linkToken") } : {}),
      ...this.captcha?.proof,
    });
    draft.clear();
    showResult(reply, config, { hasPassword: Boolean(password) });
  }

  /**
   * Go to the step that can correct a refusal, with everything that was entered. Throws it if that step is shown
   * already.
   *
   * @param {import("../shared/api.js").Refusal} refusal
   */
  async showRefusal(refusal) {
    const field = refusal.field ?? "";
    const isSpent = ["questionnaire", "linkToken"].includes(field);
    if (isSpent) {
      this.draft.update({ [field]: null });
    }
    const isAboutCaptcha = refusal.field === this.captcha?.name;
    if (isAboutCaptcha) {
      await renewAfter(refusal, this.captcha);
    }
    const owner = this.steps.findIndex((step) => step.owns.includes(field));
    const index = isAboutCaptcha ? this.steps.length - 1 : owner;
    if (index < 0 || (index === this.index && !isSpent)) {
      throw refusal;
    }
    this.isCorrecting = !isAboutCaptcha;
    (await this.show(index)).showRefusal(refusal);
  }
}

/**
 * Render how many of the steps are done; `current` counts from 0.
 *
 * @param {number} count
 * @param {number} current
 */
function renderProgress(count, current) {
  const segments = Array.from({ length: count }, (_nothing, index) =>
    make("span", { class: index <= current ? "done" : null }),
  );
  return make(
    "div",
    { class: "steps" },
    make("p", {}, t("step", { step: current + 1, steps: count })),
    make("div", { class: "bar", "aria-hidden": "true" }, segments),
  );
}

/**
 * Show the announcement at the first step only: later it would just push the fields off a phone's screen.
 *
 * @param {boolean} isShown
 */
function showAnnouncement(isShown) {
  const announcement = /** @type {HTMLElement | null} */ (document.querySelector(".announcement"));
  if (announcement !== null) {
    announcement.hidden = !isShown;
  }
}
