// The code that proves the address. It can be pasted as it stands in the mail.

import { captchaFor, renewAfter } from "../shared/captcha.js";
import { button, make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { countdown, notice } from "../shared/notice.js";
import { turnTo } from "../shared/page.js";
import { word } from "../shared/i18n.js";

/** Have a code mailed, unless the last one is so new that it has to do. Throws a Refusal. */
export async function sendCode(flow, captchaProof = {}, { isAgain = false } = {}) {
  const { draft } = flow;
  const email = draft.get("email");
  if (!isAgain && draft.get("codeFor") === email && draft.get("codeNextAt") > Date.now()) {
    return;
  }
  const sent = await flow.api.post("verify/send", { email, ...captchaProof });
  draft.keep({ codeFor: email, codeNextAt: Date.now() + sent.remainingSeconds * 1000, code: "" });
}

export const codeStep = {
  id: "code",
  owns: ["code"],
  isAsked: () => true,

  async draw(flow) {
    const { draft } = flow;
    const code = new Field("code", word("code"), {
      hint: word("code_hint"),
      inputmode: "numeric",
      autocomplete: "one-time-code",
      value: draft.get("code") ?? "",
      check: (value) => (/^\d+$/.test(digitsOf(value)) ? "" : word("code_wrong")),
    });
    const form = flow.form({ fields: [code], send: (values) => draft.keep({ code: digitsOf(values.code) }) });
    const above = make("p", {}, word("code_sent", { email: draft.get("email") }));
    return { form, above, below: [againButton(flow)] };
  },
};

/** What people paste has spaces around, or between. */
function digitsOf(value) {
  return value.replace(/[\s-]/g, "");
}

function againButton(flow) {
  const again = button(word("code_again"), () => askAgain(flow, again), "quiet");
  waitFor(flow, again);
  return again;
}

function waitFor(flow, again) {
  const seconds = Math.ceil(((flow.draft.get("codeNextAt") ?? 0) - Date.now()) / 1000);
  countdown(Math.max(0, seconds), (left) => {
    again.disabled = left > 0;
    again.textContent = left > 0 ? word("code_again_in", { seconds: left }) : word("code_again");
    return again.isConnected || left > 0;
  });
}

async function askAgain(flow, again) {
  const captcha = await captchaFor("verify_send", flow.api, flow.config).catch((refusal) => notice.refuse(refusal));
  if (captcha) {
    askWithCaptcha(flow, captcha);
    return;
  }
  try {
    await sendCode(flow, {}, { isAgain: true });
    notice.tell(word("code_sent_again"));
    waitFor(flow, again);
  } catch (refusal) {
    notice.refuse(refusal);
  }
}

function askWithCaptcha(flow, captcha) {
  const form = new Form({
    fields: [captcha],
    submit: word("code_again"),
    send: async () => {
      await sendCode(flow, captcha.proof, { isAgain: true });
      await flow.show(flow.place);
      notice.tell(word("code_sent_again"));
    },
    onRefusal: (refusal) => {
      renewAfter(refusal, captcha);
      return false;
    },
  });
  turnTo(word("code_again"), form.element, button(word("back"), () => flow.show(flow.place), "plain"));
}
