// Invitations: links with which players register, made and revoked by whoever may review.

import { confirm } from "../../shared/dialog.js";
import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { badge, timeElement } from "../badges.js";
import { may } from "../permissions.js";
import { sendChange } from "../send-change.js";

/** @typedef {GetReply<"admin/invitations">["invitations"][number]} Invitation */

const GRANTS = /** @type {const} */ (["no_questionnaire", "no_review"]);
const LIFETIMES = [1, 7, 30]; // days

/** @type {View} */
export const invitationsView = {
  id: "invitations",
  title: "view_invitations",
  permission: "users.review",

  async render(context) {
    const page = new InvitationsPage(context);
    await page.load();
    return page.elements;
  },
};

class InvitationsPage {
  /** @param {import("../view-context.js").ViewContext} context */
  constructor(context) {
    this.context = context;
    this.list = make("ul", { class: "team" });
    this.shown = make("div", { role: "status" });
    this.elements = [make("p", { class: "quiet-text" }, t("invitations_about")), this.shown, this.list, this.form()];
  }

  /** Throws a Refusal. */
  async load() {
    const { invitations } = await this.context.api.get("admin/invitations");
    replaceContent(this.list, invitations.length ? invitations.map((it) => this.line(it)) : make("li", {}, t("none")));
  }

  /** @param {Invitation} invitation */
  line({ id, grants, uses, used, madeBy, expiresAt, revokedAt }) {
    const isOver = revokedAt !== null || expiresAt <= Date.now() || used >= uses;
    const granted = grants.map((grant) => t(`grant_${grant}`)).join(", ");
    return make(
      "li",
      {},
      badge(t(isOver ? "invitation_over" : "invitation_active"), isOver ? "bad" : "good"),
      ` #${id} · ${t("invitation_used", { used, uses })}${granted && ` · ${granted}`} · `,
      `${t("token_by", { name: madeBy })} · ${t("token_until")} `,
      timeElement(expiresAt),
      !isOver && may("users.review") && button(t("token_revoke"), () => this.revoke(id), "plain"),
    );
  }

  form() {
    const [uses, days] = [uniqueId("uses"), uniqueId("days")];
    const input = make("input", { id: uses, type: "number", min: "1", max: "1000", required: true, value: "1" });
    const options = LIFETIMES.map((value) =>
      make("option", { value: String(value) }, t("days_many", { count: value })),
    );
    const select = make("select", { id: days }, options);
    select.value = "7";
    const boxes = GRANTS.map((value) => make("input", { type: "checkbox", value }));
    const labels = boxes.map((box, index) =>
      make("label", { class: "option" }, box, make("span", {}, t(`grant_${GRANTS[index]}`))),
    );
    const form = make(
      "form",
      { class: "narrow" },
      make("div", { class: "field" }, make("label", { for: uses }, t("invitation_uses")), input),
      make("div", { class: "field" }, make("label", { for: days }, t("invitation_days")), select),
      make("fieldset", { class: "field" }, make("legend", {}, t("invitation_grants")), make("div", {}, labels)),
      make("button", {}, t("invite")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const grants = GRANTS.filter((_grant, index) => boxes[index].checked);
      this.invite(Number(input.value), Number(select.value), grants);
    });
    return form;
  }

  /**
   * @param {number} uses
   * @param {number} days
   * @param {(typeof GRANTS[number])[]} grants
   */
  async invite(uses, days, grants) {
    await sendChange(
      async () => {
        const made = await this.context.api.post("admin/invitation", { uses, days, grants });
        replaceContent(this.shown, make("p", {}, t("invitation_shown")), make("code", { class: "token" }, made.link));
        return made;
      },
      () => this.load(),
    );
  }

  /** @param {number} id */
  async revoke(id) {
    const sure = t("token_revoke_sure", { name: `#${id}` });
    if (await confirm(sure, t("invitation_revoke_why"), { confirmText: t("token_revoke") })) {
      await sendChange(
        () => this.context.api.post("admin/invitation/revoke", { id }),
        () => this.load(),
      );
    }
  }
}
