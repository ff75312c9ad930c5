// Invitations: links with which players register, made and revoked by whoever may review.

import { copyable } from "../../shared/copyable.js";
import { confirm } from "../../shared/dialog.js";
import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { badge, emptyItem, listItem, timeElement } from "../badges.js";
import { may } from "../permissions.js";
import { countDays } from "../phrases.js";
import { sendChange } from "../send-change.js";

/** @typedef {GetReply<"admin/invitations">["invitations"][number]} Invitation */

const GRANTS = /** @type {const} */ (["no_questionnaire", "no_review"]);
const LIFETIMES = [1, 7, 30]; // days

/** @type {LaterView} */
export const invitationsView = {
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
    this.shown = make("div");
    const about = make("p", { class: "quiet-text" }, t("invitations_about"));
    this.elements = [make("section", { class: "panel" }, about, this.shown, this.list, this.form())];
  }

  /** Throws a Refusal. */
  async load() {
    const { invitations } = await this.context.api.get("admin/invitations");
    const lines = invitations.map((it) => this.line(it));
    replaceContent(this.list, lines.length ? lines : emptyItem("i-send", t("invitations_none")));
  }

  /** @param {Invitation} invitation */
  line({ id, grants, uses, used, madeBy, expiresAt, revokedAt }) {
    const isOver = revokedAt !== null || expiresAt <= Date.now() || used >= uses;
    const granted = grants.map((grant) => t(`grant_${grant}`)).join(", ");
    return listItem(
      [
        make("strong", {}, `#${id}`),
        " ",
        badge(t(isOver ? "invitation_over" : "invitation_active"), isOver ? "bad" : "good"),
      ],
      [
        `${t("invitation_used", { used, uses })}${granted && ` · ${t("invitation_skips", { what: granted })}`} · `,
        `${t("token_by", { name: madeBy })} · ${t("token_until")} `,
        timeElement(expiresAt),
      ],
      !isOver && may("users.review") && button(t("token_revoke"), () => this.revoke(id), "plain"),
    );
  }

  form() {
    const [uses, days] = [uniqueId("uses"), uniqueId("days")];
    const input = make("input", { id: uses, type: "number", min: "1", max: "1000", required: true, value: "1" });
    const options = LIFETIMES.map((value) => make("option", { value: String(value) }, countDays(value)));
    const select = make("select", { id: days }, options);
    select.options[LIFETIMES.indexOf(7)].defaultSelected = true;
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
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const grants = GRANTS.filter((_grant, index) => boxes[index].checked);
      if (await this.invite(Number(input.value), Number(select.value), grants)) {
        form.reset();
      }
    });
    return form;
  }

  /**
   * @param {number} uses
   * @param {number} days
   * @param {(typeof GRANTS[number])[]} grants
   */
  async invite(uses, days, grants) {
    return await sendChange(
      async () => {
        const made = await this.context.api.post("admin/invitation", { uses, days, grants });
        replaceContent(this.shown, make("p", {}, t("invitation_shown")), copyable(made.link));
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
