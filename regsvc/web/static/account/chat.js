// The chat account: shows the linked one, or offers to link one.

import { asRefusal } from "../shared/api.js";
import { findLinkedAccount, platformName, pollForAccount, startLinking } from "../shared/chat.js";
import { confirm } from "../shared/dialog.js";
import { button, make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @type {AccountSection} */
export const chatSection = {
  title: "chat_title",
  isShown: (config) => config.chat.enabled,

  async render(account) {
    const container = make("div", { "aria-live": "polite" });
    await show(account, container);
    return container;
  },
};

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
async function show(account, container) {
  const linked = await findLinkedAccount(account.api, account.user.username);
  const elements =
    linked === null ? await renderUnlinked(account, container) : renderLinked(account, container, linked);
  container.replaceChildren(...elements);
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 * @param {string} linked
 */
function renderLinked(account, container, linked) {
  return [
    make("p", {}, t("chat_linked", { account: linked })),
    button(t("chat_unlink"), () => unlink(account, container), "danger"),
  ];
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
async function renderUnlinked(account, container) {
  const { api, config, user } = account;
  const platform = platformName(config);
  const { authUrl } = await startLinking(api, user.username);
  const open = make(
    "a",
    { class: "button", href: authUrl, target: "_blank", rel: "noopener" },
    t("chat_open", { platform }),
  );
  pollForAccount(api, user.username, null, open, () => show(account, container));
  return [make("p", {}, t("chat_none", { platform })), make("p", {}, open)];
}

/**
 * @param {Account} account
 * @param {HTMLElement} container
 */
async function unlink(account, container) {
  const { api, user } = account;
  if (!(await confirm(t("chat_unlink"), t("chat_unlink_sure"), { confirmText: t("chat_unlink") }))) {
    return;
  }
  try {
    const { message = "" } = await api.post("chat/unlink", { username: user.username });
    await show(account, container);
    notice.announce(message);
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}
