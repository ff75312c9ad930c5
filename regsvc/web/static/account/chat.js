// The chat account: shows the linked one, or offers to link one.

import { asRefusal } from "../shared/api.js";
import { findLinkedAccount, platformName, pollForAccount, startLinking } from "../shared/chat.js";
import { confirm } from "../shared/dialog.js";
import { button, make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { recallAnswer } from "../shared/recall.js";

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
export async function renderChat(account, place) {
  await recallAnswer(account.api, "chat/unlink"); // what is shown now tells: the next press is another attempt
  const linked = await findLinkedAccount(account.api, account.user.username);
  return linked === null ? renderUnlinked(account, place) : renderLinked(account, place, linked);
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 * @param {string} linked
 */
function renderLinked(account, place, linked) {
  return [
    make("p", {}, t("chat_linked", { account: linked })),
    button(t("chat_unlink"), () => unlink(account, place), "danger"),
  ];
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
async function renderUnlinked(account, place) {
  const { api, config, user } = account;
  const platform = platformName(config);
  const { authUrl } = await startLinking(api, user.username);
  const open = make(
    "a",
    { class: "button", href: authUrl, target: "_blank", rel: "noopener" },
    t("chat_open", { platform }),
  );
  pollForAccount(api, user.username, null, open, () => place.renderAgain());
  return [make("p", {}, t("chat_none", { platform })), make("p", {}, open)];
}

/**
 * @param {Account} account
 * @param {SectionPlace} place
 */
async function unlink(account, place) {
  const { api, user } = account;
  if (!(await confirm(t("chat_unlink"), t("chat_unlink_sure"), { confirmText: t("chat_unlink") }))) {
    return;
  }
  try {
    const { message = "" } = await api.post("chat/unlink", { username: user.username });
    await place.renderAgain();
    notice.announce(message);
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}
