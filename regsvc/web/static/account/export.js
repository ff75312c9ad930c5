// Downloading everything that is stored about the user.

import { asRefusal } from "../shared/api.js";
import { button, make } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";

/** @type {AccountSection} */
export function renderExport({ api, user }) {
  return [make("p", {}, t("export_about")), button(t("export_download"), () => download(api, user.username), "quiet")];
}

/**
 * @param {import("../shared/api.js").Api} api
 * @param {string} username
 */
async function download(api, username) {
  try {
    const { success, message, ...stored } = await api.get("user/export");
    const file = new Blob([JSON.stringify(stored, null, 2)], { type: "application/json" });
    const href = URL.createObjectURL(file);
    make("a", { href, download: `${username}.json` }).click();
    URL.revokeObjectURL(href);
    notice.show(t("export_done"), "good");
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
}
