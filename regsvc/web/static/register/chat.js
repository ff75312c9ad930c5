// The chat account: the platform opens in a tab of its own, and this one notices when linking is done.

import { Refusal } from "../shared/api.js";
import { findLinkedAccount, platformName, pollForAccount, startLinking } from "../shared/chat.js";
import { make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @type {Step} */
export const chatStep = {
  id: "chat",
  owns: ["linkToken"],
  isRequired: (config) => config.chat.enabled,

  async render(flow) {
    const { api, config, draft } = flow;
    const username = draft.get("username");
    const state = make("p", { "aria-live": "polite" });
    const form = makeForm(flow);
    const linked = draft.get("linkToken") && (await findLinkedAccount(api, username, draft.get("linkToken")));
    if (linked) {
      state.textContent = t("chat_linked", { account: linked });
      return { form, above: state };
    }
    draft.update({ linkToken: null });
    form.submit.hidden = config.chat.required;
    const { authUrl, linkToken } = await startLinking(api, username);
    const platform = platformName(config);
    const open = make(
      "a",
      { class: "button", href: authUrl, target: "_blank", rel: "noopener" },
      t("chat_open", { platform }),
    );
    pollForAccount(api, username, linkToken, open, (account) => {
      draft.update({ linkToken });
      state.textContent = t("chat_linked", { account });
      open.remove();
      form.submit.hidden = false;
      form.submit.focus();
    });
    state.textContent = t(config.chat.required ? "chat_required" : "chat_welcome", { platform });
    return { form, above: [state, make("p", {}, open)] };
  },
};

/** @param {import("./flow.js").Flow} flow */
function makeForm(flow) {
  const { config, draft } = flow;
  return flow.form({
    fields: [],
    send: () => {
      if (config.chat.required && !draft.get("linkToken")) {
        throw new Refusal(422, { field: "linkToken", message: t("chat_missing") });
      }
    },
    onRefusal: (refusal) => {
      if (refusal.code !== "chat_account_taken") {
        return false;
      }
      draft.update({ linkToken: null }); // to choose another one
      flow.show(flow.index).then(
        () => notice.showRefusal(refusal),
        (another) => notice.showRefusal(another),
      );
      return true;
    },
  });
}
