// An invitation, from the link that leads here: what it grants, and what becomes of one that cannot be used.

import { asRefusal } from "../shared/api.js";
import { make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

const MARK = "#invite=";

/**
 * Take the invitation from the address, or from the draft, and say who invited. Resolves to null without one, and where
 * it cannot be used, which is said: players may register without it.
 *
 * @param {import("./draft.js").Draft} draft
 * @param {import("../shared/api.js").Api} api
 * @returns {Promise<PostReply<"invitation/check"> | null>}
 */
export async function takeInvitation(draft, api) {
  if (location.hash.startsWith(MARK)) {
    draft.update({ invitation: location.hash.slice(MARK.length) });
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  const invitation = draft.get("invitation");
  if (!invitation) {
    return null;
  }
  try {
    return await api.post("invitation/check", { invitation });
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal.field === "invitation") {
      draft.update({ invitation: null });
    }
    notice.showRefusal(refusal);
    return null;
  }
}

/**
 * Render who invited the visitor, above the first step.
 *
 * @param {PostReply<"invitation/check">} invitation
 */
export function renderInvitation({ madeBy, grants }) {
  const key = grants.includes("no_review") ? "invited_no_review" : "invited";
  return make("p", { class: "notice", "data-kind": "good" }, t(key, { name: madeBy }));
}
