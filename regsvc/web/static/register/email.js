// The e-mail address; a code is sent to it.

import { captchaFor, renewAfter } from "../shared/captcha.js"; // if captcha
import { button, make, replaceContent } from "../shared/dom.js";
import { Field } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { sendCode } from "./code.js"; // if code

const LOOKS_LIKE_AN_ADDRESS = /^[^\s@]+@[^\s@]+$/;

/** Where most addresses are; the ones that are told apart by one character are all real. */
const USUAL_DOMAINS = (
  "gmail.com googlemail.com hotmail.com outlook.com live.com yahoo.com icloud.com proton.me protonmail.com aol.com " +
  "mail.com email.com ymail.com gmx.com gmx.de gmx.net gmx.at gmx.ch web.de t-online.de freenet.de hotmail.de " +
  "outlook.de yahoo.de orange.fr free.fr laposte.net sfr.fr wanadoo.fr hotmail.fr outlook.fr yahoo.fr live.fr " +
  "foxmail.com sina.com qq.com 163.com 126.com"
).split(" ");
const SHORTEST_CHECKED = 6; // of qq.com and the like, too many others differ by one character

/** @type {Step} */
export const emailStep = {
  id: "email",
  owns: ["email", "proof"],
  isRequired: (config) => config.registration.email === "verified",
  given: ({ draft }) => [[t("email"), draft.get("email")]],

  async render(flow) {
    const { config, draft } = flow;
    const domains = config.emailDomainWhitelist;
    const accepted = domains ? `\n${t("email_domains", { domains: domains.join(", ") })}` : "";
    const email = emailField(draft.get("email") ?? "", { hint: t("email_hint") + accepted });
    const captcha = config.captcha.enabled ? captchaFor("verify_send", flow.api, config) : null;
    const form = flow.form({
      fields: captcha === null ? [email] : [email, captcha],
      send: async (values) => {
        draft.update({ email: values.email.trim() });
        await sendCode(flow, await captcha?.proof());
      },
      onRefusal: (refusal) => {
        captcha && renewAfter(refusal, captcha);
        return false;
      },
    });
    return { form };
  },
};

/**
 * Make the field for an e-mail address. A domain that looks mistyped is asked about once, with the usual one to choose.
 *
 * @param {string} value
 * @param {import("../shared/form.js").FieldOptions} options
 */
export function emailField(value, options) {
  let asked = "";
  const offer = make("div");
  const email = new Field("email", t("email"), {
    type: "email",
    autocomplete: "email",
    inputmode: "email",
    isTrimmed: true,
    value,
    check: (typed) => {
      if (!LOOKS_LIKE_AN_ADDRESS.test(typed)) {
        return t("email_wrong");
      }
      const meant = findMistyped(typed);
      if (meant === "" || typed === asked) {
        return "";
      }
      asked = typed;
      const accept = () => {
        email.value = meant;
        email.focus();
      };
      replaceContent(offer, button(t("email_use", { email: meant }), accept, "quiet"));
      return t("email_meant", { email: meant });
    },
    ...options,
  });
  email.input.addEventListener("input", () => replaceContent(offer));
  email.error.after(offer);
  return email;
}

/**
 * Return the address with a usual domain that this one's differs from by one slip of the fingers; "" if there is none.
 *
 * @param {string} email
 */
export function findMistyped(email) {
  const at = email.lastIndexOf("@") + 1;
  const domain = email.slice(at).toLowerCase();
  const meant = domain.length > SHORTEST_CHECKED && !USUAL_DOMAINS.includes(domain);
  const found = meant && USUAL_DOMAINS.find((usual) => usual.length > SHORTEST_CHECKED && isSlip(domain, usual));
  return found ? email.slice(0, at) + found : "";
}

/**
 * Return whether one character was missed, added or exchanged, or two neighbours were swapped.
 *
 * @param {string} typed
 * @param {string} meant
 */
function isSlip(typed, meant) {
  let start = 0;
  while (start < meant.length && typed[start] === meant[start]) {
    start += 1;
  }
  const [left, right] = [typed.slice(start), meant.slice(start)];
  return (
    left.slice(1) === right ||
    left === right.slice(1) ||
    left.slice(1) === right.slice(1) ||
    (left.slice(2) === right.slice(2) && left[0] === right[1] && left[1] === right[0])
  );
}
