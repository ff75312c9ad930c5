// Everything that is kept about the owner, as a file.

import { button, make } from "../shared/dom.js";
import { notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";

export const exportSection = {
  title: "export_title",
  isThere: () => true,

  draw({ api, user }) {
    return [make("p", {}, word("export_about")), button(word("export_download"), () => download(api, user.username), "quiet")];
  },
};

async function download(api, username) {
  try {
    const { success, message, ...kept } = await api.get("user/export");
    const file = new Blob([JSON.stringify(kept, null, 2)], { type: "application/json" });
    const href = URL.createObjectURL(file);
    make("a", { href, download: `${username}.json` }).click();
    URL.revokeObjectURL(href);
    notice.say(word("export_done"), "good");
  } catch (refusal) {
    notice.refuse(refusal);
  }
}
