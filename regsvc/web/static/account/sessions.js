// Where the user is logged in, and the end of single sessions.

import { asRefusal } from "../shared/api.js";
import { make, replaceContent } from "../shared/dom.js";
import { formatTime, t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @typedef {GetReply<"user/sessions">["sessions"][number]} OwnSession */

/** @type {AccountSection} */
export const sessionsSection = {
  title: "sessions_title",
  isShown: () => true,

  async render(account) {
    const container = make("div", {});
    await show(account, container);
    return container;
  },
};

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
async function show(account, container) {
  const { sessions } = await account.api.get("user/sessions");
  const items = sessions.map((session) => renderSession(account, container, session));
  replaceContent(container, make("ul", { class: "plain-list" }, items));
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 * @param {OwnSession} session
 */
function renderSession(account, container, session) {
  const seen = formatTime(session.lastSeenAt);
  const where = t(session.audience === "admin" ? "session_admin" : "session_user");
  const about = [
    make("strong", {}, session.isCurrent ? t("session_here", { where }) : where),
    make("br"),
    t("session_about", { ip: session.ip ?? "–", started: formatTime(session.startedAt), seen }),
  ];
  const label = `${t("session_end")}: ${where}, ${seen}`;
  const end = make(
    "button",
    { type: "button", class: "quiet", "aria-label": label, onclick: () => endSession(account, container, session) },
    t("session_end"),
  );
  return make("li", {}, make("p", {}, about), session.isCurrent ? null : end);
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 * @param {OwnSession} session
 */
async function endSession(account, container, { id }) {
  try {
    const { message = "" } = await account.api.post("user/sessions/end", { session: id });
    await show(account, container);
    notice.announce(message);
  } catch (error) {
    const refusal = asRefusal(error);
    notice.showRefusal(refusal);
    if (refusal.code === "session_not_found") {
      await show(account, container); // it ended meanwhile
    }
  }
}
