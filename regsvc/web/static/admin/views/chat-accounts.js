// The chat accounts of the team: one's own, and for those who manage the team those of all.

import { copyable } from "../../shared/copyable.js";
import { button, make, replaceContent } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { platformTitle } from "../../shared/platforms.js";
import { recallAnswer } from "../../shared/recall.js";
import { listItem, timeElement } from "../badges.js";
import { sendWithPassword } from "../own-password.js";
import { sendChange } from "../send-change.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */
/** @typedef {GetReply<"admin/team-chat">} TeamChat */

export class ChatAccounts {
  /** @param {ViewContext} context */
  constructor(context) {
    this.context = context;
    this.about = make("p", { class: "quiet-text" });
    this.accounts = make("ul", { class: "team" });
    this.shown = make("div");
    const title = make("h3", {}, t("chat_accounts"));
    this.elements = [make("section", { class: "panel" }, title, this.about, this.accounts, this.shown)];
  }

  /** Throws a Refusal. */
  async load() {
    await recallAnswer(this.context.api, "admin/team-chat/unlink"); // its outcome is shown: the next is another attempt
    const { platforms, accounts } = await this.context.api.get("admin/team-chat");
    this.about.textContent = platforms.length ? t("chat_accounts_about") : t("chat_accounts_off");
    const rows = accounts.map((account) => this.account(account));
    const codeButton = button(t("chat_code_make"), () => this.makeCode(), "plain");
    replaceContent(this.accounts, [...rows, platforms.length > 0 && make("li", {}, codeButton)]);
  }

  /** @param {TeamChat["accounts"][number]} account */
  account({ username, platform, accountName, linkedAt }) {
    const unlink = () => this.send(() => this.context.api.post("admin/team-chat/unlink", { username, platform }));
    return listItem(
      make("strong", {}, username),
      [`${platformTitle(platform)}: ${accountName} `, timeElement(linkedAt)],
      button(t("chat_unlink"), unlink, "plain"),
    );
  }

  async makeCode() {
    await this.send(async () => {
      const made = await sendWithPassword(t("chat_code_make"), (own) =>
        this.context.api.post("admin/team-chat/code", own),
      );
      if (made !== null) {
        replaceContent(this.shown, make("p", {}, t("chat_code_use")), copyable(made.code));
      }
      return made;
    });
  }

  /** @param {() => Promise<{ message?: string } | null>} change */
  async send(change) {
    await sendChange(change, () => this.load());
  }
}
