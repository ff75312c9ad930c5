// The way through the steps. The request is sent at the end; what it refuses leads back to the step that can mend it.

import { CaptchaField, isAskedFor, renewAfter } from "../shared/captcha.js";
import { button, make } from "../shared/dom.js";
import { Form } from "../shared/form.js";
import { turnTo } from "../shared/page.js";
import { notice, steps as showSteps } from "../shared/notice.js";
import { word } from "../shared/i18n.js";
import { showResult } from "./result.js";

/**
 * A step: `id` (its heading is the word `step_<id>`), `owns` (the fields of the request it answers for), `isAsked(config)`
 * and `draw(flow)`, which comes back with `{form, above, below}`: a form made by `flow.form` and elements around it.
 */
export class Flow {
  constructor({ api, config, draft, steps }) {
    Object.assign(this, { api, config, draft, steps });
    this.place = 0;
    this.isMending = false; // on the way back from the end: after this step the request is sent again
    this.captcha = isAskedFor("register", config) ? new CaptchaField(api, config.captcha) : null;
  }

  /** Where it was left off, as far as all that is not kept does not have to be asked again. */
  async begin() {
    const left = Math.max(0, this.steps.findIndex((step) => step.id === this.draft.get("step")));
    const name = this.steps.findIndex((step) => step.id === "name"); // the password is not kept
    await this.show(Math.min(left, name), { isFirst: true });
  }

  get isLast() {
    return this.isMending || this.place === this.steps.length - 1;
  }

  /** The form of a step: its button goes on, at the last one it registers. `send(values)` does what the step needs. */
  form({ fields, send = () => {}, others = [], onRefusal = () => false, aliases = {} }) {
    const isCaptchaHere = this.captcha !== null && this.place === this.steps.length - 1;
    return new Form({
      fields: isCaptchaHere ? [...fields, this.captcha] : fields,
      submit: word(this.isLast ? "register" : "next"),
      others,
      aliases,
      send: async (values) => {
        const { captchaAnswer, ...own } = values;
        this.draft.keep(own);
        await send(own);
        await this.next();
      },
      onRefusal,
    });
  }

  /** Comes back with the step's form. Throws a Refusal, and stays where it is, if the step cannot be asked for. */
  async show(place, { isFirst = false } = {}) {
    const step = this.steps[place];
    const before = this.place;
    this.place = place;
    try {
      if (this.captcha !== null && place === this.steps.length - 1 && !this.isMending) {
        await this.captcha.renew();
      }
      this.draw(await step.draw(this), isFirst);
    } catch (refusal) {
      this.place = before;
      throw refusal;
    }
    return this.draft.form;
  }

  draw({ form, above = [], below = [] }, isFirst) {
    const { place, draft } = this;
    draft.form = form;
    draft.keep({ step: this.steps[place].id });
    const title = make("h2", {}, word(`step_${this.steps[place].id}`));
    const back = place > 0 && button(word("back"), () => this.back(), "plain");
    turnTo(null, showSteps(this.steps.length, place), title, above, form.element, below, back);
    showAnnouncement(place === 0);
    if (!isFirst) {
      form.fields[0]?.focus();
    }
  }

  async back() {
    notice.clear();
    this.draft.keep(this.draft.form.values);
    this.isMending = false;
    await this.show(this.place - 1).catch((refusal) => notice.refuse(refusal));
  }

  async next() {
    if (this.isMending && !this.draft.get("code")) {
      await this.show(this.steps.findIndex((step) => step.id === "code")); // another address wants a code of its own
    } else if (this.isLast) {
      await this.register().catch((refusal) => this.leadTo(refusal));
    } else {
      notice.clear();
      await this.show(this.place + 1);
    }
  }

  async register() {
    const { draft, config } = this;
    const password = draft.get("password");
    const questionnaire = draft.get("questionnaire");
    const reply = await this.api.post("register", {
      username: draft.get("username"),
      email: draft.get("email"),
      code: draft.get("code") ?? "",
      ...(password ? { password } : {}),
      ...(draft.get("platform") ? { platform: [draft.get("platform")].flat()[0] } : {}),
      ...(questionnaire ? { questionnaire: { token: questionnaire.token } } : {}),
      ...(draft.get("linkToken") ? { linkToken: draft.get("linkToken") } : {}),
      ...this.captcha?.proof,
    });
    draft.clear();
    showResult(reply, config, { hasPassword: Boolean(password) });
  }

  /** To the step that can mend it, with everything that was entered. Throws it where that is the one that is shown. */
  async leadTo(refusal) {
    const isSpent = ["questionnaire", "linkToken"].includes(refusal.field);
    if (isSpent) {
      this.draft.keep({ [refusal.field]: null });
    }
    const isCaptchas = refusal.field === this.captcha?.name;
    if (isCaptchas) {
      await renewAfter(refusal, this.captcha);
    }
    const owner = this.steps.findIndex((step) => step.owns.includes(refusal.field));
    const place = isCaptchas ? this.steps.length - 1 : owner;
    if (place < 0 || (place === this.place && !isSpent)) {
      throw refusal;
    }
    this.isMending = !isCaptchas;
    (await this.show(place)).object(refusal);
  }
}

/** Read once, it would only push the fields of a phone out of sight. */
function showAnnouncement(isShown) {
  const announcement = document.querySelector(".announcement");
  if (announcement) {
    announcement.hidden = !isShown;
  }
}
