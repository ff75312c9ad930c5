// Changing the password, which ends every session, and what members of the team made, which it does not end.

import { definitionList, make } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { passwordField } from "../shared/password-fields.js";
import { platformTitle } from "../shared/platforms.js";
import { recallAnswer } from "../shared/recall.js";

/** @type {AccountSection} */
export function renderPassword({ api, config, user, leave }) {
  const password = passwordField("newPassword", t("password_new"), config, {
    also: (value) => (value.toLowerCase() === user.username.toLowerCase() ? t("password_is_name") : ""),
  });
  /** @type {GetReply<"user/made">} */
  let made;
  const form = new Form({
    fields: [currentPasswordField(), password],
    submit: t("password_change"),
    send: async ({ currentPassword, newPassword }) => {
      if (made === undefined || !api.isUnanswered("user/password")) {
        made = await api.get("user/made"); // asked before the session ends, too
      }
      const { message = "" } = await api.post("user/password", { currentPassword, newPassword });
      const left = listMade({ ...made, sessions: [] }).map((entry) => entry.join(": "));
      if (left.length > 0) {
        location.hash = "made_title"; // open after the login
      }
      leave([message, ...(left.length ? [t("made_left"), ...left] : [])].join("\n"));
    },
  });
  return form.element;
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
export async function renderMade({ api }, place) {
  await recallAnswer(api, "user/made/end"); // what is shown now tells: the next press is another attempt
  const entries = listMade(await api.get("user/made"));
  if (entries.length === 0) {
    return make("p", {}, t("made_none"));
  }
  const form = new Form({
    fields: [currentPasswordField()],
    submit: t("made_end"),
    kind: "danger",
    send: async ({ currentPassword }) => {
      const { message = "" } = await api.post("user/made/end", { currentPassword });
      await place.renderAgain();
      notice.announce(message);
    },
  });
  return [make("p", {}, t("made_about")), definitionList(entries), form.element];
}

/**
 * Return what has not ended, as names and values; kinds of which there is nothing are left out.
 *
 * @param {GetReply<"user/made">} made
 * @returns {Array<[string, string]>}
 */
function listMade({ sessions, tokens, links, invitations, chatAccounts }) {
  /** @type {Array<[string, string[]]>} */
  const kinds = [
    [t("made_sessions"), sessions],
    [t("made_tokens"), tokens],
    [t("made_links"), links],
    [t("made_invitations"), invitations.map((id) => `#${id}`)],
    [t("made_chat_accounts"), chatAccounts.map((it) => (it === "code" ? t("made_code") : platformTitle(it)))],
  ];
  return kinds.filter(([, labels]) => labels.length > 0).map(([name, labels]) => [name, labels.join(", ")]);
}

/** Make the field that confirms who is logged in. */
export function currentPasswordField() {
  return new Field("currentPassword", t("password_current"), { type: "password", autocomplete: "current-password" });
}
