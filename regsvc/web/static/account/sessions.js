// Where the user is logged in, and the end of single sessions.

import { asRefusal } from "../shared/api.js";
import { nameDevice } from "../shared/device.js";
import { make } from "../shared/dom.js";
import { formatTime, t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @typedef {GetReply<"user/sessions">["sessions"][number]} OwnSession */

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
export async function renderSessions(account, place) {
  const { sessions } = await account.api.get("user/sessions");
  const items = sessions.map((session) => renderSession(account, place, session));
  return make("ul", { class: "plain-list" }, items);
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 * @param {OwnSession} session
 */
function renderSession(account, place, session) {
  const seen = formatTime(session.lastSeenAt);
  const device = nameDevice(session);
  const page = t(session.audience === "admin" ? "session_admin" : "session_user");
  const where = device && session.audience === "user" ? device : [device, page].filter(Boolean).join(" · ");
  const about = [
    make("strong", {}, session.isCurrent ? t("session_here", { where }) : where),
    make("br"),
    t("session_about", { ip: session.ip ?? "–", started: formatTime(session.startedAt), seen }),
  ];
  const label = `${t("session_end")}: ${where}, ${seen}`;
  const end = make(
    "button",
    { type: "button", class: "quiet", "aria-label": label, onclick: () => endSession(account, place, session) },
    t("session_end"),
  );
  return make("li", {}, make("p", {}, about), session.isCurrent ? null : end);
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 * @param {OwnSession} session
 */
async function endSession(account, place, { id }) {
  try {
    const { message = "" } = await account.api.post("user/sessions/end", { session: id });
    await place.renderAgain();
    notice.announce(message);
  } catch (error) {
    const refusal = asRefusal(error);
    notice.showRefusal(refusal);
    if (refusal.code === "session_not_found") {
      await place.renderAgain(); // it ended meanwhile
    }
  }
}
