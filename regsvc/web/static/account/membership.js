// How long players may play, and what they can do where that ends.

import { asRefusal } from "../shared/api.js";
import { linkContact } from "../shared/config.js";
import { make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { formatTime, t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

const LONGEST_TEXT = 500; // characters

/**
 * Say what becomes of a membership that ends soon or has ended.
 *
 * @param {OwnStatus} user
 */
export function renderMembership({ membership }) {
  if (!membership || membership.state === "current") {
    return null;
  }
  const { state, because, endsAt, stayAskedAt, mayAsk } = membership;
  const sentences = [
    state === "ending" && t(`until_${because}`, { until: formatTime(endsAt) }),
    because === "role" && t("stay_role"),
    stayAskedAt !== null && t("stay_asked", { at: formatTime(stayAskedAt) }),
    state === "ended" && stayAskedAt === null && !mayAsk && because !== "role" && t("stay_elsewhere"),
  ].filter(Boolean);
  return sentences.length > 0 && make("p", { class: "notice", "data-kind": "wait" }, linkContact(sentences.join(" ")));
}

/**
 * Make the form with which players ask the team to let them stay; null for those who may not, or have asked.
 *
 * @param {Account} account
 */
export function stayForm({ api, user, refresh }) {
  if (!user.membership?.mayAsk) {
    return null;
  }
  const fields = [new Field("text", t("stay_text"), { type: "textarea", isOptional: true, maxlength: LONGEST_TEXT })];
  const send = async (/** @type {Record<string, any>} */ { text }) => {
    const { message = "" } = await api.post("user/membership/ask", { text });
    await refresh();
    notice.announce(message);
  };
  return new Form({ fields, submit: t("stay_ask"), send }).element;
}

/**
 * Have it looked at now whether a player has the role again whose loss ended the membership; returns whether it was.
 *
 * @param {import("../shared/api.js").Api} api
 * @param {OwnStatus} user
 */
export async function lookForRole(api, { membership }) {
  if (membership?.because !== "role") {
    return false;
  }
  try {
    await /** @type {any} */ (api).post("user/membership/look", {});
    return true;
  } catch (error) {
    asRefusal(error); // the page is complete without it: roles are looked at from time to time
    return false;
  }
}
