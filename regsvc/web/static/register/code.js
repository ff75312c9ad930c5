// The code that verifies the e-mail address. It can be pasted with the words around it, and is checked at once: what it
// proves outlives the code itself.

import { captchaFor, renewAfter } from "../shared/captcha.js"; // if captcha
import { button, make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { formatWait, t } from "../shared/i18n.js";
import { countdown, notice } from "../shared/notice.js";
import { showSection } from "../shared/page.js";

/** @typedef {import("./flow.js").Flow} Flow */

const SENT = "code-sent";

/**
 * Have a code mailed, unless the last one is too recent or none is needed. Throws a Refusal.
 *
 * @param {Flow} flow
 * @param {object} captchaProof
 */
export async function sendCode(flow, captchaProof = {}, { isAgain = false } = {}) {
  const { draft } = flow;
  const email = draft.get("email");
  const isRecent = draft.get("codeFor") === email && draft.get("codeNextAt") > Date.now();
  if (!isAgain && (isRecent || draft.isProven)) {
    return;
  }
  const sent = await flow.api.post("verify/send", { email, ...captchaProof }).catch((refusal) => {
    if (isAgain || refusal.body?.fault !== "code_sent") {
      throw refusal;
    }
    return refusal.body; // perhaps in another tab: that code is still good
  });
  draft.update({
    codeFor: email,
    codeNextAt: Date.now() + sent.remainingSeconds * 1000,
    codeMinutes: Math.ceil(sent.expiresInSeconds / 60),
    isCodeEarlier: "code" in sent, // of a refusal
    code: "",
  });
}

/** @type {Step} */
export const codeStep = {
  id: "code",
  owns: ["code"],
  isRequired: (config) => config.registration.email === "verified",

  async render(flow) {
    const { draft } = flow;
    if (draft.isProven) {
      return { form: flow.form({ fields: [] }), above: make("p", {}, t("code_right", { email: draft.get("email") })) };
    }
    const digits = flow.config.registration.codeDigits;
    const code = new Field("code", t("code"), {
      hint: t("code_hint", { minutes: draft.get("codeMinutes") }),
      inputmode: "numeric",
      autocomplete: "one-time-code",
      value: draft.get("code") ?? "",
      check: (value) => (findCode(value, digits) ? "" : t("code_wrong", { digits })),
    });
    const form = flow.form({ fields: [code], send: ({ code }) => checkCode(flow, findCode(code, digits)) });
    code.input.addEventListener("input", () => {
      if (findCode(code.value, digits)) {
        form.element.requestSubmit();
      }
    });
    const sent = t(draft.get("isCodeEarlier") ? "code_sent_before" : "code_sent", { email: draft.get("email") });
    code.input.setAttribute("aria-describedby", `${code.error.id} ${SENT} ${code.hint.id}`);
    const toEmail = () => flow.back();
    return {
      form,
      focused: code.input, // what to do is known: the mail has said it
      above: make("p", {}, make("span", { id: SENT }, sent), " ", button(t("email_change"), toEmail, "plain")),
      below: [resendButton(flow)],
    };
  },
};

/**
 * Exchange the code for a proof of the address. Throws a Refusal.
 *
 * @param {Flow} flow
 * @param {string} code
 */
async function checkCode({ api, draft }, code) {
  const email = draft.get("email");
  const { proof } = await api.post("verify/check", { email, code });
  draft.update({ proof, proofFor: email, code: "" });
}

/**
 * Return the code in what was typed or pasted, or "": a run of so many digits, perhaps with spaces or hyphens between.
 *
 * @param {string} text
 * @param {number} digits
 */
export function findCode(text, digits) {
  const found = text.match(new RegExp(`(?:^|\\D)(\\d(?:[ -]?\\d){${digits - 1}})(?!\\d)`));
  return found === null ? "" : found[1].replace(/[ -]/g, "");
}

/** @param {Flow} flow */
function resendButton(flow) {
  const resend = button(t("code_again"), () => resendCode(flow, resend), "quiet");
  disableUntilAllowed(flow, resend);
  return resend;
}

/**
 * @param {Flow} flow
 * @param {HTMLButtonElement} resend
 */
function disableUntilAllowed(flow, resend) {
  const seconds = Math.ceil(((flow.draft.get("codeNextAt") ?? 0) - Date.now()) / 1000);
  countdown(Math.max(0, seconds), (left) => {
    resend.disabled = left > 0;
    resend.textContent = left > 0 ? t("code_again_in", { when: formatWait(left) }) : t("code_again");
    return resend.isConnected || left > 0;
  });
}

/**
 * @param {Flow} flow
 * @param {HTMLButtonElement} resend
 */
async function resendCode(flow, resend) {
  const captcha = flow.config.captcha.enabled && captchaFor("verify_send", flow.api, flow.config);
  if (captcha) {
    showCaptchaForm(flow, captcha);
    return;
  }
  try {
    await sendCode(flow, {}, { isAgain: true });
    notice.announce(t("code_sent_again"));
    disableUntilAllowed(flow, resend);
  } catch (refusal) {
    notice.showRefusal(/** @type {import("../shared/api.js").Refusal} */ (refusal));
  }
}

/**
 * @param {Flow} flow
 * @param {import("../shared/captcha.js").CaptchaField} captcha
 */
function showCaptchaForm(flow, captcha) {
  const form = new Form({
    fields: [captcha],
    submit: t("code_again"),
    send: async () => {
      await sendCode(flow, await captcha.proof(), { isAgain: true });
      await flow.show(flow.index);
      notice.announce(t("code_sent_again"));
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      return false;
    },
  });
  showSection(
    t("code_again"),
    form.element,
    button(t("back"), () => flow.show(flow.index), "plain"),
  );
}
