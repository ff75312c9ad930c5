// The flow through the steps. The request is sent at the end; its refusals lead back to the step that can correct them.

import { asRefusal } from "../shared/api.js";
import { CaptchaField, renewAfter, requiresCaptcha } from "../shared/captcha.js"; // if captcha
import { button, link, make } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { showSection } from "../shared/page.js";
import { recallAnswer } from "../shared/recall.js";
import { renderInvitation } from "./invitation.js";
import { explain } from "./name.js";
import { StepHistory } from "./step-history.js";
import { renderSummary } from "./summary.js";

const PROGRESS = "progress";
const APPLICATION = "companion.application"; // the address of the application that was sent in this tab
const ATTEMPTS = 3;
const PAUSE = 2000; // milliseconds; phones come out of tunnels

export class Flow {
  /**
   * @param {object} parts
   * @param {import("../shared/api.js").Api} parts.api
   * @param {Config} parts.config
   * @param {import("./draft.js").Draft} parts.draft
   * @param {Step[]} parts.steps those that this host requires
   * @param {PostReply<"invitation/check"> | null} parts.invitation
   */
  constructor({ api, config, draft, steps, invitation }) {
    this.invitation = invitation;
    this.api = api;
    this.config = config;
    this.draft = draft;
    this.steps = steps;
    this.index = 0;
    this.reached = 0; // no entry of the history leads beyond: the password is not stored
    this.history = new StepHistory(config.webServerPrefix, (step) => this.showAgain(step));
    this.isChanging = false; // on a way back from the last step, which comes next again
    this.isCorrecting = false; // on the way back from the end: after this step the request is sent again
    /** @type {{ body: PostBody<"register">, draft: string } | null} what got no answer, and what it was made of */
    this.unanswered = null;
    const isAsked = config.captcha.enabled && requiresCaptcha("register", config);
    this.captcha = isAsked ? new CaptchaField(api, config.captcha) : null;
  }

  /** Begin where the draft was left, but not after the step for the password if it has to be typed again. */
  async begin() {
    if (await this.finishUnanswered()) {
      return;
    }
    const left = this.steps.findIndex((step) => step.id === this.draft.get("step"));
    const name = this.steps.findIndex((step) => step.id === "name");
    const isLost = this.draft.isPasswordLost && left >= name;
    await this.show(isLost ? name : Math.max(0, left), { isFirst: true });
  }

  /**
   * Show a step that the visitor went to in the browser's history.
   *
   * @param {string} id
   */
  async showAgain(id) {
    this.leave();
    const index = this.steps.findIndex((step) => step.id === id);
    const isOpen = index >= 0 && index <= this.reached;
    await this.show(isOpen ? index : this.reached, { isAgain: true }).catch((refusal) => {
      this.history.replace(this.steps[this.index].id);
      notice.showRefusal(refusal);
    });
  }

  /** Whether the step for the code, another one than this, has still to be done. */
  get isCodeMissing() {
    const codeStep = this.steps.findIndex((step) => step.id === "code");
    return codeStep >= 0 && codeStep !== this.index && !this.draft.isProven;
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
    const isAtEnd = this.index === this.steps.length - 1;
    const captcha = isAtEnd ? this.captcha : null;
    return new Form({
      fields: captcha === null ? fields : [...fields, captcha],
      submit: t(this.isLast && !this.isCodeMissing ? "register" : "next"),
      others: isAtEnd ? [others, renderSummary(this)] : others,
      send: async ({ captchaAnswer: _answer, ...values }) => {
        this.draft.update(values);
        if (await this.finishUnanswered()) {
          return;
        }
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
  async show(index, { isFirst = false, isAgain = false } = {}) {
    const before = this.index;
    this.index = index;
    try {
      if (this.captcha !== null && index === this.steps.length - 1 && !this.isCorrecting) {
        this.captcha.load();
      }
      const rendered = await this.steps[index].render(this);
      this.isChanging &&= index < this.steps.length - 1;
      this.remember(before, isFirst || isAgain);
      this.render(rendered, isFirst);
      if (this.draft.isPasswordLost && this.steps[index].id === "name") {
        notice.show(t("password_again"));
      }
      return rendered.form;
    } catch (refusal) {
      this.index = before;
      throw refusal;
    }
  }

  /**
   * Give the step that is about to be shown an entry in the history, and its title.
   *
   * @param {number} before the step that was shown until now
   * @param {boolean} hasEntry
   */
  remember(before, hasEntry) {
    const { index, steps } = this;
    this.reached = Math.max(this.reached, index);
    if (hasEntry || index === before) {
      this.history.replace(steps[index].id);
    } else {
      this.history.add(steps[index].id);
    }
    const place = steps.length > 1 ? ` (${index + 1}/${steps.length})` : "";
    this.history.setTitle(this.titleOf(steps[index]) + place);
  }

  /** @param {Step} step */
  titleOf({ id, titleKey }) {
    return t(titleKey?.(this.config) ?? `step_${id}`);
  }

  /**
   * Show a step from its top. The focus goes to its heading or `focused`, unless the page has just been opened.
   *
   * @param {RenderedStep} step
   * @param {boolean} isFirst
   */
  render({ form, above = [], below = [], focused }, isFirst) {
    const { index, draft, steps } = this;
    draft.form = form;
    draft.update({ step: steps[index].id });
    const isOne = steps.length === 1;
    const titles = steps.map((step) => this.titleOf(step));
    const progress = !isOne && renderProgress(titles, index);
    const described = isOne ? {} : { "aria-describedby": PROGRESS };
    const title = make("h2", { tabindex: "-1", ...described }, this.titleOf(steps[index]));
    const back = index > 0 && button(t("back"), () => this.back(), "plain");
    const invited = index === 0 && this.invitation !== null && renderInvitation(this.invitation);
    const anew = draft.isKept && button(t("start_anew"), () => this.startAnew(), "plain");
    const before = [index === 0 && appliedBefore(), invited, progress];
    showSection(null, before, title, above, form.element, below, back, anew);
    showAnnouncement(index === 0);
    if (!isFirst) {
      scrollTo(0, 0);
      (focused ?? title).focus({ preventScroll: true });
    }
  }

  /** Forget everything that an earlier visit has left. */
  startAnew() {
    this.draft.clear();
    location.reload(); // there may be other steps
  }

  /** Keep what was typed into the step that is being left. */
  leave() {
    notice.clear();
    if (this.draft.form !== null) {
      this.draft.update(this.draft.form.values);
    }
    this.isCorrecting = false;
    this.isChanging = false;
  }

  /**
   * Go from the last step back to another, to change what was given there.
   *
   * @param {Step} step
   */
  async change(step) {
    this.leave();
    step.reopen?.(this.draft);
    this.isChanging = true;
    await this.show(this.steps.indexOf(step)).catch((refusal) => notice.showRefusal(refusal));
  }

  /** Go back to an earlier step: where the browser's Back would lead, unless that is a later one. */
  async back() {
    const before = this.steps.findIndex((step) => step.id === this.history.before);
    if (before >= 0 && before < this.index) {
      history.back();
      return;
    }
    this.leave();
    await this.show(this.index - 1).catch((refusal) => notice.showRefusal(refusal));
  }

  async next() {
    const codeStep = this.steps.findIndex((step) => step.id === "code");
    if (this.isCorrecting && this.isCodeMissing) {
      await this.show(codeStep); // another address needs its own code
    } else if (this.isLast) {
      await this.register().catch((error) => this.showRefusal(asRefusal(error)));
    } else {
      notice.clear();
      const isCodeNext = this.index + 1 === codeStep;
      const next = this.index + (isCodeNext && this.draft.isProven ? 2 : 1);
      await this.show(this.isChanging && !this.isCodeMissing ? this.steps.length - 1 : next);
    }
  }

  /**
   * Send the registration, and again while no answer comes: if it arrived, the next answer is the one that was lost.
   *
   * @param {PostBody<"register">} body
   */
  async sendUntilAnswered(body) {
    this.unanswered = { body, draft: this.draft.entered };
    for (let attempt = 1; ; attempt++) {
      try {
        return this.finish(await this.api.post("register", body));
      } catch (error) {
        const refusal = asRefusal(error);
        if (refusal.code !== "unreachable") {
          this.unanswered = null;
          throw refusal;
        }
        if (attempt === ATTEMPTS) {
          throw refusal;
        }
      }
      notice.show(t("no_answer"));
      await new Promise((resolve) => setTimeout(resolve, attempt * PAUSE));
    }
  }

  /**
   * Learn first what became of a registration that got no answer, and return whether that is the end: every other
   * request would meet what it has spent. It is sent again as it was, unless something else was entered meanwhile.
   */
  async finishUnanswered() {
    if (!this.api.isUnanswered("register")) {
      return false;
    }
    if (this.unanswered?.draft === this.draft.entered) {
      await this.sendUntilAnswered(this.unanswered.body).catch((error) => this.showRefusal(asRefusal(error)));
      return true;
    }
    const reply = await recallAnswer(this.api, "register");
    if (reply === null) {
      return false; // it did not arrive
    }
    this.finish(reply);
    return true;
  }

  /** Who registers: what the name step has checked, too. */
  get applicant() {
    const { draft } = this;
    const password = draft.get("password");
    return {
      username: draft.get("username"),
      ...(draft.get("email") ? { email: draft.get("email") } : {}),
      ...(draft.isProven ? { proof: draft.get("proof") } : {}),
      ...(draft.get("reapplyToken") ? { applicationToken: draft.get("reapplyToken") } : {}),
      ...(password ? { password } : {}),
      ...(draft.get("platform") ? { platform: [draft.get("platform")].flat()[0] } : {}),
    };
  }

  async register() {
    const { draft } = this;
    const questionnaire = draft.get("questionnaire");
    await this.sendUntilAnswered({
      ...this.applicant,
      ...(questionnaire ? { questionnaire: { token: questionnaire.token } } : {}),
      ...(draft.get("invitation") ? { invitation: draft.get("invitation") } : {}),
      ...(draft.get("linkToken") ? { linkToken: draft.get("linkToken") } : {}),
      ...(await this.captcha?.proof()),
    });
  }

  /**
   * Go on to the page of the application.
   *
   * @param {{ applicationToken: string }} reply
   */
  finish({ applicationToken }) {
    this.draft.clear();
    const application = `application#token=${applicationToken}`;
    sessionStorage.setItem(APPLICATION, application);
    addEventListener("pageshow", () => location.reload()); // Back may bring this page back as it was
    location.replace(application);
  }

  /**
   * Go back to the step for the address if its proof has ended; return whether it has. `isAtEnd`: nothing else is left
   * to do.
   *
   * @param {import("../shared/api.js").Refusal} refusal
   */
  leadsToProof(refusal, { isAtEnd = false } = {}) {
    const hasEnded = refusal.field === "proof" || refusal.field === "applicationToken";
    if (hasEnded) {
      this.showRefusal(refusal, { isAtEnd }).catch((another) => notice.showRefusal(another));
    }
    return hasEnded;
  }

  /**
   * Go to the step that can correct a refusal, with everything that was entered. Throws it if that step is shown
   * already.
   *
   * @param {import("../shared/api.js").Refusal} refusal
   */
  async showRefusal(refusal, { isAtEnd = true } = {}) {
    const field = refusal.field ?? "";
    const isSpent = ["questionnaire", "linkToken", "proof"].includes(field);
    notice.clear();
    explain(refusal);
    if (field === "applicationToken") {
      this.draft.update({ reapplyToken: null, step: "email" }); // it has ended: the address is proven by a code
      location.reload();
      return;
    }
    if (isSpent) {
      this.draft.update({ [field]: null });
    }
    if (field === "invitation") {
      location.reload(); // with the steps of a visitor without one; it is refused again there, in words
      return;
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
    this.isCorrecting = isAtEnd && !isAboutCaptcha;
    (await this.show(index)).showRefusal(refusal);
  }
}

/** Render a link to the application that was sent in this tab, so that nobody who comes back applies twice. */
function appliedBefore() {
  const address = sessionStorage.getItem(APPLICATION);
  return (
    address &&
    make("p", { class: "notice", "data-kind": "good" }, t("applied"), " ", link(address, t("to_application")))
  );
}

/**
 * Render how many of the steps are done; `current` counts from 0. A single step needs no count.
 *
 * @param {string[]} titles
 * @param {number} current
 */
function renderProgress(titles, current) {
  const segments = titles.map((title, index) => make("span", { class: index <= current ? "done" : null }, title));
  return make(
    "div",
    { class: "steps", hidden: titles.length === 1 },
    make("p", { id: PROGRESS }, t("step", { step: current + 1, steps: titles.length })),
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
