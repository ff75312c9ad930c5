// The chat account: linked, or to be linked or unlinked.

import { ask, begin, follow, nameOfPlatform } from "../shared/chat.js";
import { button, make } from "../shared/dom.js";
import { confirm, notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";

export const chatSection = {
  title: "chat_title",
  isThere: (config) => config.chat.enabled,

  async draw(account) {
    const place = make("div", { "aria-live": "polite" });
    await show(account, place);
    return place;
  },
};

async function show(account, place) {
  const linked = await ask(account.api, account.user.username);
  place.replaceChildren(...(linked === null ? await unlinked(account, place) : whenLinked(account, place, linked)));
}

function whenLinked(account, place, linked) {
  return [make("p", {}, word("chat_linked", { account: linked })), button(word("chat_unlink"), () => unlink(account, place), "danger")];
}

async function unlinked({ api, config, user, ...account }, place) {
  const platform = nameOfPlatform(config);
  const begun = await begin(api, user.username);
  const open = make("a", { class: "button", href: begun.authUrl, target: "_blank", rel: "noopener" }, word("chat_open", { platform }));
  follow(api, user.username, null, open, () => show({ api, config, user, ...account }, place));
  return [make("p", {}, word("chat_none", { platform })), make("p", {}, open)];
}

async function unlink(account, place) {
  const { api, user } = account;
  if (!(await confirm(word("chat_unlink"), word("chat_unlink_sure"), { agree: word("chat_unlink") }))) {
    return;
  }
  try {
    const { message } = await api.post("chat/unlink", { username: user.username });
    await show(account, place);
    notice.tell(message);
  } catch (refusal) {
    notice.refuse(refusal);
  }
}
