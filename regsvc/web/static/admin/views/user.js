// One user whole: what is known, what was decided, and everything that can be done.

import { Refusal } from "../../shared/api.js";
import { fillWith, link, make } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { word } from "../../shared/i18n.js";
import { changeBan, decideAbout, DECISION_KEYS, fits, USER_EVENTS } from "../decisions/actions.js";
import { playerLabel, statusLabel, waitingLabel } from "../badges.js";
import { detailsOf } from "./queue/applicant.js";
import { clientsOf, factsOf, mailsOf, playerOf, sessionsOf } from "./user/sections.js";
import { passwordPart } from "./user/password.js";

const DECISIONS = ["approve", "reject", "ban", "unban", "delete"];
const SOON = 700; // milliseconds; many events at once are one question

export const userView = {
  id: "user",
  title: "view_user",
  isInMenu: false,
  menu: "users",
  heading: ({ name }) => name || word("view_user"),

  async draw(office, { name = "" }) {
    const page = new UserPage(office, name);
    await page.load();
    return page.elements;
  },
};

class UserPage {
  constructor(office, name) {
    this.office = office;
    this.name = name;
    this.sign = ""; // of what is shown
    this.user = null; // null: there is nobody of that name any more
    this.timer = null;
    this.state = make("p", { class: "badges", tabindex: "-1" });
    this.acts = make("div", { class: "acts", role: "group", "aria-label": word("user_acts") });
    this.about = make("div", { class: "user-about" });
    this.password = passwordPart(office, name);
    this.decided = make("div", {});
    this.player = make("section", {});
    const columns = make("div", { class: "columns" }, make("section", {}, this.decided, this.password.element), this.player);
    this.elements = [this.state, this.acts, this.about, columns];
    this.register();
  }

  register() {
    const { office } = this;
    const isMe = (username) => username.toLowerCase() === this.name.toLowerCase();
    office.onEvent(USER_EVENTS, ({ username }) => isMe(username) && this.refreshSoon());
    office.onEvent(["sync_finished", "missed"], () => this.refreshSoon());
    office.onDecision((what, { usernames }) => {
      if (usernames.some(isMe)) {
        this.drawState();
      }
      if (what === "sent" || what === "refused") {
        this.refreshSoon();
      }
    });
    office.onLeave(() => clearTimeout(this.timer));
    const keys = DECISIONS.map((decision) => [DECISION_KEYS[decision], { word: `key_${decision}`, action: () => this.decide(decision) }]);
    office.keys({ ...Object.fromEntries(keys), c: { word: "key_change_ban", action: () => this.changeBan() } });
  }

  /** Throws a Refusal, but for a user who is gone: that is shown. */
  async load() {
    try {
      this.user = (await this.office.api.get("admin/user", { username: this.name })).user;
    } catch (refusal) {
      if (refusal.code !== "user_not_found") {
        throw refusal;
      }
      this.user = null;
    }
    const sign = JSON.stringify(this.user);
    if (!this.office.isOver && sign !== this.sign) {
      this.sign = sign;
      this.draw();
    }
  }

  refreshSoon() {
    this.timer ??= setTimeout(async () => {
      this.timer = null;
      try {
        await this.load();
      } catch (refusal) {
        if (!(refusal instanceof Refusal)) {
          throw refusal;
        }
        if (!refusal.isLoggedOut) {
          notice.say(refusal.message, "bad"); // nobody has asked for it, so nobody is led away
        }
      }
    }, SOON);
  }

  draw() {
    const { office, user } = this;
    this.drawState();
    this.password.show(user);
    fillWith(this.about, user === null ? make("p", {}, word("user_gone")) : factsOf(user), links(office, this.name));
    fillWith(this.decided, user !== null && detailsOf(user));
    fillWith(this.player, user !== null && [playerOf(user), mailsOf(user), sessionsOf(user), clientsOf(user)]);
  }

  /** How it stands, and what can be decided now. */
  drawState() {
    const { office, user } = this;
    const hadFocus = this.acts.contains(document.activeElement);
    const waiting = waitingLabel(office, this.name);
    fillWith(this.state, user !== null && statusLabel(user.status), " ", user !== null && playerLabel(user.plugin), " ", waiting);
    fillWith(this.acts, user !== null && waiting === null && this.buttons());
    if (hadFocus && !document.activeElement?.closest("dialog")) {
      (this.acts.querySelector("button") ?? this.state).focus();
    }
  }

  buttons() {
    const { user } = this;
    const others = DECISIONS.filter((decision) => decision !== "delete" && fits(decision, user));
    const act = (text, key, onclick, kind) => make("button", { type: "button", class: kind, onclick }, text, make("kbd", { "aria-hidden": "true" }, key));
    const decide = (decision, kind) => act(word(`do_${decision}`), DECISION_KEYS[decision], () => this.decide(decision), kind);
    return [
      others.map((decision) => decide(decision, ["approve", "unban"].includes(decision) ? null : "quiet")),
      user.status === "banned" && act(word("change_ban"), "c", () => this.changeBan(), "quiet"),
      decide("delete", "quiet bad"),
    ];
  }

  async decide(decision) {
    if (this.user !== null && this.office.waiting(this.name) === null) {
      await decideAbout(this.office, decision, [this.user]);
    }
  }

  async changeBan() {
    if (this.user?.status === "banned" && this.office.waiting(this.name) === null) {
      await changeBan(this.office, this.user);
    }
  }
}

function links(office, username) {
  return make(
    "p",
    { class: "links" },
    link(office.address("audits", { target: username }), word("user_audits")),
    link(office.address("mails", { to: username }), word("user_mails")),
  );
}
