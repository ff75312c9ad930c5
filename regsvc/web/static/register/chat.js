// The chat account: the platform is opened in a tab of its own, and this one notices when it is done.

import { button, make } from "../shared/dom.js";
import { Refusal } from "../shared/api.js";
import { notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";
import { ask, begin, follow, nameOfPlatform } from "../shared/chat.js";

export const chatStep = {
  id: "chat",
  owns: ["linkToken"],
  isAsked: (config) => config.chat.enabled,

  async draw(flow) {
    const { api, config, draft } = flow;
    const username = draft.get("username");
    const state = make("p", { "aria-live": "polite" });
    const form = flow.form({
      fields: [],
      send: () => {
        if (config.chat.required && !draft.get("linkToken")) {
          throw new Refusal(422, { field: "linkToken", message: word("chat_missing") });
        }
      },
      onRefusal: (refusal) => {
        if (refusal.code !== "chat_account_taken") {
          return false;
        }
        draft.keep({ linkToken: null }); // to choose another one
        flow.show(flow.place).then(() => notice.refuse(refusal), (another) => notice.refuse(another));
        return true;
      },
    });
    const linked = draft.get("linkToken") ? await ask(api, username, draft.get("linkToken")) : null;
    if (linked) {
      state.textContent = word("chat_linked", { account: linked });
      return { form, above: state };
    }
    draft.keep({ linkToken: null });
    form.submit.hidden = config.chat.required;
    const begun = await begin(api, username);
    const platform = nameOfPlatform(config);
    const open = make(
      "a",
      { class: "button", href: begun.authUrl, target: "_blank", rel: "noopener" },
      word("chat_open", { platform }),
    );
    follow(api, username, begun.linkToken, open, (account) => {
      draft.keep({ linkToken: begun.linkToken });
      state.textContent = word("chat_linked", { account });
      open.remove();
      form.submit.hidden = false;
      form.submit.focus();
    });
    state.textContent = word(config.chat.required ? "chat_required" : "chat_welcome", { platform });
    return { form, above: [state, make("p", {}, open)] };
  },
};
