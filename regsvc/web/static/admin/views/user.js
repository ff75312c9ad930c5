// One user in full: their data, the decisions about them, and everything an operator can do.

import { Refusal } from "../../shared/api.js";
import { link, make, replaceContent } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { Signal } from "../../shared/signal.js";
import { givePoints, NotesSection } from "../additions.js";
import { askedBadge, listedBadge, pendingBadge, playerBadge, statusBadge } from "../badges.js";
import { changeBan, decideFor, decisionKeys } from "../decisions/actions.js";
import { askApplicant } from "../decisions/ask-dialog.js";
import { membershipActions, membershipBadges, membershipButtons, membershipKeys } from "../decisions/membership.js";
import { destructiveButtons, moreMenu } from "../decisions/more-menu.js";
import { APPLICANT_NEWS, applies, DECISION_KEYS, DECISIONS, USER_EVENTS } from "../decisions/transitions.js";
import { may, mayDecide } from "../permissions.js";
import { Refresh } from "../refresh.js";
import { sendChange } from "../send-change.js";
import { whyPanel } from "../why.js";
import { renderAnswers, renderConversation, renderHistory } from "./queue/applicant.js";
import { passwordSection } from "./user/password.js";
import { renderClients, renderFacts, renderGates, renderPlayer, renderSent, renderSessions } from "./user/sections.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */

/** @type {LaterView} */
export const userView = {
  async render(context, { name = "" }) {
    const page = new UserPage(context, name);
    await page.load();
    page.start();
    return page.elements;
  },
};

/**
 * The decisions outside the menu, each with the kind of its button.
 *
 * @type {Partial<Record<DecisionName, string | null>>}
 */
const KINDS = { approve: null, reject: "danger", reopen: "quiet", unban: null };

class UserPage {
  /**
   * @param {ViewContext} context
   * @param {string} name
   */
  constructor(context, name) {
    this.context = context;
    this.name = name;
    this.signature = ""; // of the user who is shown
    this.stateSignature = "";
    /** @type {Signal<UserDetails | null>} null: there is no user with this name any more */
    this.user = new Signal(null);
    this.refresh = new Refresh(context, () => this.load());
    this.membership = membershipActions(context, () => {
      const isFree = this.user.value !== null && context.pendingFor(name) === null;
      return isFree && this.user.value ? [this.user.value] : [];
    });
    this.state = make("p", { class: "badges", tabindex: "-1" });
    this.actions = make("div", { class: "row-actions", role: "group", "aria-label": t("user_acts") });
    this.about = make("section", { class: "panel user-about" });
    this.password = passwordSection(context, name);
    this.details = make("div", {});
    this.notes = new NotesSection(context, name, "h3");
    this.notes.onAdded = () => this.load();
    this.notes.element.className = "panel";
    this.player = make("div", {});
    const parts = [this.about, this.actions, this.details, this.notes.element, this.password.element];
    this.elements = [this.state, make("div", { class: "columns" }, make("div", {}, parts), this.player)];
  }

  /** Follow the user, events and pending decisions from now on. */
  start() {
    const { context } = this;
    const isThis = (/** @type {string} */ username) => username.toLowerCase() === this.name.toLowerCase();
    context.effect(() => this.renderUser());
    context.effect(() => this.renderState());
    context.onEvent(USER_EVENTS, ({ username }, name) => {
      if (isThis(username)) {
        this.refresh.soon();
        if (name in APPLICANT_NEWS) {
          notice.show(t(APPLICANT_NEWS[name], { name: username })); // it may have been read already
        }
      }
    });
    context.onEvent(["user_membership_changed", "sync_finished", "missed"], () => this.refresh.soon());
    context.onDecision((change) => {
      if (change === "sent" || change === "refused") {
        this.refresh.soon();
      }
    });
    context.addKeys({
      ...decisionKeys(DECISIONS, (decision) => this.decide(decision)),
      ...membershipKeys(this.membership),
      ...(may("users.review") ? { q: { label: "key_ask", action: () => this.ask() } } : {}),
      c: { label: "key_change_ban", action: () => this.changeBan() },
    });
  }

  /** Load the user; one who does not exist any more is shown as such. Throws every other Refusal. */
  async load() {
    let user = null;
    try {
      ({ user } = await this.context.api.get("admin/user", { username: this.name }));
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "user_not_found")) {
        throw error;
      }
    }
    const signature = JSON.stringify(user);
    if (!this.context.isOver && signature !== this.signature) {
      this.signature = signature;
      this.user.value = user;
    }
  }

  renderUser() {
    const user = this.user.value;
    this.password.update(user);
    this.notes.update(user);
    const links = renderLinks(this.context, this.name);
    if (user === null) {
      replaceContent(this.about, make("p", {}, t("user_gone")), links);
      replaceContent(this.details);
      replaceContent(this.player);
      return;
    }
    const judge = givePoints(this.context, this.name, () => this.load());
    replaceContent(this.about, make("h3", {}, t("profile")), renderFacts(user));
    replaceContent(
      this.details,
      panel(renderConversation(user, "h3")),
      panel(renderAnswers(user, "h3", judge)),
      panel(renderHistory(user, "h3"), links),
    );
    const why = [make("h3", {}, t("why_title")), whyPanel(this.context, user.username)];
    const sessions = renderSessions(user, (session) => this.endSession(session));
    replaceContent(
      this.player,
      panel(why, renderGates(user)),
      panel(renderPlayer(user)),
      panel(renderSent(user)),
      panel(sessions, renderClients(user)),
    );
  }

  /** @param {string} session */
  async endSession(session) {
    const body = { username: this.name, session };
    await sendChange(
      () => this.context.api.post("admin/user/sessions/end", body),
      () => this.load(),
    );
  }

  /** Render the status and the decisions that can be made now. */
  renderState() {
    const user = this.user.value;
    const pending = pendingBadge(this.context, this.name);
    const asked = user && askedBadge(user);
    const membership = JSON.stringify(user?.membership);
    const state = [user?.status, user?.plugin, user?.allowlist, asked?.textContent, pending?.textContent, membership];
    const signature = JSON.stringify(state);
    if (signature === this.stateSignature) {
      return; // a decision about another user has changed: the focus stays
    }
    this.stateSignature = signature;
    const hadFocus = this.actions.contains(document.activeElement);
    if (user === null) {
      replaceContent(this.state, " ", " ", pending);
      replaceContent(this.actions);
    } else {
      const inGame = [playerBadge(user.plugin), " ", listedBadge(user.allowlist), " "];
      const member = membershipBadges(user);
      replaceContent(this.state, statusBadge(user.status), " ", member, asked, " ", inGame, pending);
      replaceContent(this.actions, pending === null && this.makeButtons(user));
    }
    if (hadFocus && !document.activeElement?.closest("dialog")) {
      (this.actions.querySelector("button") ?? this.state).focus();
    }
  }

  /** @param {UserDetails} user */
  makeButtons(user) {
    const usual = DECISIONS.filter((decision) => decision in KINDS && applies(decision, user));
    const decide = (/** @type {DecisionName} */ decision) => this.decide(decision);
    const isRelisted = user.allowlist === "removed";
    const destructive = /** @type {const} */ (["ban", "delete"]).filter((decision) => applies(decision, user));
    const buttons = usual.map((decision) => {
      const text = t(decision === "approve" && isRelisted ? "do_relist" : `do_${decision}`);
      const label = decision === "approve" ? text : t("opens", { what: text });
      return keyButton(label, DECISION_KEYS[decision], KINDS[decision] ?? null, () => decide(decision));
    });
    return [
      user.status === "approved" && membershipButtons(this.membership, user),
      buttons.slice(0, 1),
      user.status !== "approved" && membershipButtons(this.membership, user),
      this.canAsk && keyButton(t("opens", { what: t("do_ask") }), "q", "quiet", () => this.ask()),
      buttons.slice(1),
      user.status === "banned" && mayDecide("ban") && keyButton(t("change_ban"), "c", "quiet", () => this.changeBan()),
      destructive.length > 0 && moreMenu(destructiveButtons(decide, destructive)),
    ];
  }

  get canAsk() {
    return this.user.value?.status === "pending" && may("users.review") && this.context.pendingFor(this.name) === null;
  }

  async ask() {
    if (this.canAsk && (await askApplicant(this.context, this.name))) {
      this.refresh.soon();
    }
  }

  /** @param {DecisionName} decision */
  async decide(decision) {
    const user = this.user.value;
    if (user !== null && this.context.pendingFor(this.name) === null) {
      await decideFor(this.context, decision, [user]);
    }
  }

  async changeBan() {
    const user = this.user.value;
    if (user?.status === "banned" && mayDecide("ban") && this.context.pendingFor(this.name) === null) {
      await changeBan(this.context, user);
    }
  }
}

/**
 * Make a panel; null where nothing is in it.
 *
 * @param {Child[]} parts
 */
function panel(...parts) {
  return parts.some(Boolean) && make("section", { class: "panel" }, parts);
}

/**
 * @param {string} text
 * @param {string} key
 * @param {string | null} kind
 * @param {() => unknown} onclick
 */
function keyButton(text, key, kind, onclick) {
  return make("button", { type: "button", class: kind, onclick }, text, make("kbd", { "aria-hidden": "true" }, key));
}

/**
 * @param {ViewContext} context
 * @param {string} username
 */
function renderLinks(context, username) {
  return make(
    "p",
    { class: "links" },
    may("audit.read") && link(context.hashFor("audits", { action: "any", target: username }), t("user_audits")),
    may("system.read") && link(context.hashFor("mails", { to: username }), t("user_mails")),
  );
}
