// The team: operators, reviewers and moderators, their chat accounts, and the API tokens of bots.

import { copyable } from "../../shared/copyable.js";
import { confirm } from "../../shared/dialog.js";
import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { badge, emptyItem, listItem, timeElement, userLink } from "../badges.js";
import { sendWithPassword } from "../own-password.js";
import { may } from "../permissions.js";
import { countDays, labelFor } from "../phrases.js";
import { sendChange } from "../send-change.js";
import { ChatAccounts } from "./chat-accounts.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */
/** @typedef {GetReply<"admin/team">} Team */
/** @typedef {PostBody<"admin/token/create">["permissions"][number]} TokenPermission */

const ROLES = ["reviewer", "moderator", "none"];
const FOR_TOKENS = ["users.read", "users.review", "users.ban", "users.manage", "audit.read", "sync.run", "system.read"];
const LIFETIMES = [30, 90, 365]; // days

/** @type {LaterView} */
export const teamView = {
  async render(context) {
    const pages = [new ChatAccounts(context), ...(may("team.manage") ? [new TeamPage(context)] : [])];
    await Promise.all(pages.map((page) => page.load()));
    return pages.reverse().flatMap((page) => page.elements);
  },
};

class TeamPage {
  /** @param {ViewContext} context */
  constructor(context) {
    this.context = context;
    this.members = make("ul", { class: "team" });
    this.tokens = make("ul", { class: "team" });
    this.shown = make("div");
    const about = (/** @type {string} */ text) => make("p", { class: "quiet-text" }, text);
    const [title, panel] = [make("h3", {}, t("tokens")), { class: "panel" }];
    this.elements = [
      make("section", panel, about(t("team_about")), this.members, this.roleForm()),
      make("section", panel, title, about(t("tokens_about")), this.shown, this.tokens, this.tokenForm()),
    ];
  }

  /** Throws a Refusal. */
  async load() {
    const { members, tokens } = await this.context.api.get("admin/team");
    replaceContent(
      this.members,
      members.map((member) => this.member(member)),
    );
    const active = tokens.filter(({ revokedAt }) => revokedAt === null);
    const lines = active.map((token) => this.token(token));
    replaceContent(this.tokens, lines.length ? lines : emptyItem("i-lock", t("tokens_none")));
  }

  /** @param {Team["members"][number]} member */
  member({ username, role, isActive }) {
    return listItem(
      [userLink(this.context, username), " ", badge(labelFor("role", role), role === "operator" ? "good" : null)],
      !isActive && t("member_inactive"),
      role !== "operator" && button(t("role_take"), () => this.give(username, "none"), "plain"),
    );
  }

  /** @param {Team["tokens"][number]} token */
  token({ name, permissions, madeBy, expiresAt, lastUsedAt }) {
    const named = permissions.map((it) => labelFor("permission", it.replace(".", "_"))).join(", ");
    return listItem(
      make("strong", {}, name),
      [
        `${named}; ${t("token_by", { name: madeBy })}; `,
        expiresAt === null ? t("token_unlimited") : [t("token_until"), " ", timeElement(expiresAt)],
        "; ",
        lastUsedAt === null ? t("token_unused") : [t("token_used"), " ", timeElement(lastUsedAt)],
      ],
      button(t("token_revoke"), () => this.revoke(name), "plain"),
    );
  }

  roleForm() {
    const [name, role] = [uniqueId("member"), uniqueId("role")];
    const input = make("input", { id: name, type: "text", required: true, autocomplete: "off", maxlength: "255" });
    const options = ROLES.map((value) => make("option", { value }, labelFor("role", value)));
    const select = make("select", { id: role }, options);
    return this.form(t("role_give"), () => this.give(input.value.trim(), select.value), [
      [make("label", { for: name }, t("member_name")), input],
      [make("label", { for: role }, t("role")), select],
    ]);
  }

  tokenForm() {
    const [name, lifetime] = [uniqueId("token"), uniqueId("lifetime")];
    const input = make("input", { id: name, type: "text", required: true, autocomplete: "off", maxlength: "40" });
    const boxes = FOR_TOKENS.map((value) => make("input", { type: "checkbox", value, name: "may" }));
    const labels = boxes.map((box) =>
      make("label", { class: "option" }, box, make("span", {}, labelFor("permission", box.value.replace(".", "_")))),
    );
    const days = LIFETIMES.map((value) => make("option", { value: String(value) }, countDays(value)));
    const select = make("select", { id: lifetime }, days, make("option", { value: "" }, t("token_unlimited")));
    select.options[LIFETIMES.indexOf(90)].defaultSelected = true;
    const send = () => {
      const permissions = boxes.filter(({ checked }) => checked).map(({ value }) => value);
      return this.create(input.value.trim(), permissions, select.value ? Number(select.value) : null);
    };
    return this.form(t("token_make"), send, [
      [make("label", { for: name }, t("token_name")), input],
      make(
        "fieldset",
        { class: "field" },
        make("legend", {}, t("token_may")),
        make("div", { class: "choices" }, labels),
      ),
      [make("label", { for: lifetime }, t("token_until")), select],
    ]);
  }

  /**
   * @param {string} text
   * @param {() => Promise<boolean>} send returns whether it was done
   * @param {Child[]} fields
   */
  form(text, send, fields) {
    const parts = fields.map((field) => (Array.isArray(field) ? make("div", { class: "field" }, field) : field));
    const form = make("form", { class: "narrow" }, parts, make("button", {}, text));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (await send()) {
        form.reset();
      }
    });
    return form;
  }

  /**
   * @param {string} username
   * @param {string} role
   */
  async give(username, role) {
    const body = { username, role: /** @type {"none"} */ (role) };
    return await this.send(() => this.context.api.post("admin/user/role", body));
  }

  /**
   * @param {string} name
   * @param {string[]} permissions
   * @param {number | null} days
   */
  async create(name, permissions, days) {
    return await this.send(async () => {
      const token = { name, permissions: /** @type {TokenPermission[]} */ (permissions), days };
      const made = await sendWithPassword(t("token_make"), (own) =>
        this.context.api.post("admin/token/create", { ...token, ...own }),
      );
      if (made !== null) {
        replaceContent(this.shown, make("p", {}, t("token_shown")), copyable(made.token));
      }
      return made;
    });
  }

  /** @param {string} name */
  async revoke(name) {
    if (await confirm(t("token_revoke_sure", { name }), t("token_revoke_why"), { confirmText: t("token_revoke") })) {
      await this.send(() => this.context.api.post("admin/token/revoke", { name }));
    }
  }

  /** @param {() => Promise<{ message?: string } | null>} change */
  async send(change) {
    return await sendChange(change, () => this.load());
  }
}
