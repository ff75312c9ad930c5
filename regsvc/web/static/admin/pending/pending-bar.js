// The bar at the foot of the page: the last pending decision with a button to undo it, in a height that does not
// change, and on request all of them, with the seconds until each is sent (again). Unsent and refused ones always show.

import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { clearOnceRead } from "../../shared/notice.js";
import { effect, Signal } from "../../shared/signal.js";
import { askPassword } from "../decisions/actions.js";
import { wordReason } from "../decisions/saved-reasons.js";
import { describeTerm } from "../decisions/term.js";
import { describeDecision, formatNumber, listNames, statusInSentence } from "../phrases.js";
import { leaveRoom } from "../room-below.js";

/** @typedef {import("./decision-sender.js").DecisionSender} DecisionSender */
/** @typedef {import("./pending-decision.js").PendingDecision} PendingDecision */
/** @typedef {import("./pending-decisions.js").PendingDecisions} PendingDecisions */

export class PendingBar {
  /**
   * @param {PendingDecisions} pending
   * @param {DecisionSender} sender
   */
  constructor(pending, sender) {
    this.pending = pending;
    this.sender = sender;
    /** @type {Map<PendingDecision, Row>} kept, so that a button about to be pressed stays where it is */
    this.rows = new Map();
    /** Whether the operator wants to see all of them. */
    this.isOpen = new Signal(false);
    this.count = make("h2", {});
    this.list = make("ul", { id: uniqueId("pending") });
    this.last = make("p", { class: "last" });
    this.undoLast = button(t("undo"), () => pending.undoLast(), "plain");
    this.toggle = button("", () => this.toggleList(), "plain");
    this.toggle.setAttribute("aria-controls", this.list.id);
    this.status = make("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    this.sendNow = button(t("send_now"), () => sender.flush(), "plain");
    const head = make("div", { class: "bar-line" }, this.count, this.last);
    const buttons = make("div", { class: "bar-line" }, this.undoLast, this.sendNow, this.toggle);
    this.element = make(
      "section",
      { class: "pending-bar", "aria-label": t("tray"), hidden: true },
      head,
      buttons,
      this.list,
    );
    leaveRoom(this.element, "--tray");
    effect(() => this.render());
  }

  /**
   * Announce a change to screen readers; the seconds are not read out to them.
   *
   * @param {string} text
   */
  announce(text) {
    this.status.textContent = text;
    clearOnceRead(this.status);
  }

  toggleList() {
    this.isOpen.value = !this.isOpen.value;
  }

  render() {
    const { entries } = this.pending;
    const unsent = entries.filter(({ state }) => state !== "refused");
    const count = unsent.reduce((sum, { usernames }) => sum + usernames.length, 0);
    this.element.hidden = entries.length === 0;
    this.count.textContent = count ? t("tray_count", { count: formatNumber(count) }) : t("tray_refused");
    this.sendNow.hidden = !entries.some((entry) => entry.canUndo);
    this.renderLast(entries);
    const needsReading = entries.some(({ state }) => state === "refused" || state === "unsent");
    const isOpen = needsReading || this.isOpen.value;
    this.list.hidden = !isOpen;
    this.toggle.hidden = needsReading;
    this.toggle.textContent = t(isOpen ? "tray_hide" : "tray_show");
    this.toggle.setAttribute("aria-expanded", String(isOpen));
    for (const [entry, row] of this.rows) {
      if (!entries.includes(entry)) {
        this.rows.delete(entry);
        row.element.remove();
      }
    }
    for (const entry of entries) {
      if (!this.rows.has(entry)) {
        const row = new Row(this.pending, this.sender, entry);
        this.rows.set(entry, row);
        this.list.prepend(row.element);
      }
    }
    this.rows.forEach((row) => row.render());
  }

  /**
   * Name the decision that "Undo" is about.
   *
   * @param {PendingDecision[]} entries
   */
  renderLast(entries) {
    const last = entries.findLast((entry) => entry.canUndo) ?? null;
    const isSending = entries.some(({ state }) => state === "sending");
    this.last.textContent = last === null ? (isSending ? t("is_sent") : "") : describeDecision(last);
    this.last.hidden = this.last.textContent === "";
    this.undoLast.hidden = last === null;
    const seconds = last?.secondsLeft;
    const isTimed = last?.state === "waiting" && seconds !== undefined;
    this.undoLast.textContent = isTimed ? t("undo_left", { seconds }) : t("undo");
    this.undoLast.setAttribute("aria-label", `${t("undo")}: ${this.last.textContent}`);
  }
}

class Row {
  /**
   * @param {PendingDecisions} pending
   * @param {DecisionSender} sender
   * @param {PendingDecision} entry
   */
  constructor(pending, sender, entry) {
    this.pending = pending;
    this.sender = sender;
    this.entry = entry;
    this.rendered = "";
    this.focused = ""; // the button that had the focus before it was replaced
    this.left = make("span", { class: "left" });
    this.element = make("li", {});
  }

  render() {
    const { entry } = this;
    void this.pending.clock.value; // once more each second
    const { secondsLeft: seconds } = entry;
    this.left.textContent = t(entry.state === "unsent" ? "next_try" : "seconds", { seconds });
    this.left.hidden = seconds === Number.POSITIVE_INFINITY;
    const state = [entry.state, entry.usernames.length, entry.message].join();
    if (state !== this.rendered) {
      this.rendered = state;
      this.element.dataset.state = entry.state;
      if (this.element.contains(document.activeElement)) {
        this.focused = document.activeElement?.textContent ?? "";
      }
      replaceContent(this.element, this[entry.state]());
      this.restoreFocus();
    }
  }

  /** Move the focus to the button that had it, unless it has gone elsewhere: nobody asked for a retry by itself. */
  restoreFocus() {
    const same = [...this.element.querySelectorAll("button")].find(({ textContent }) => textContent === this.focused);
    if (same !== undefined && document.activeElement === document.body) {
      same.focus();
    }
    if (this.entry.state !== "sending") {
      this.focused = "";
    }
  }

  waiting() {
    return [this.description(), this.left, this.undoButton()];
  }

  sending() {
    return [this.description(), make("span", { class: "left" }, t("is_sent"))];
  }

  unsent() {
    const retry = button(t("try_again"), () => this.sender.send([this.entry]), "plain");
    const { isUnsure, message } = this.entry;
    const why = make("span", { class: "why" }, isUnsure ? message : t("not_sent", { why: message }));
    return [this.description(why), this.left, retry, this.undoButton()];
  }

  refused() {
    const { entry } = this;
    const [first, ...others] = entry.refusals;
    const what = make("b", {}, t("was_refused", { what: describeDecision(entry) }));
    const lines = entry.refusals.map((refusal) =>
      make("li", {}, make("b", {}, refusal.username), ` ${refusalText(refusal, entry)}`),
    );
    const why = others.length ? make("ul", {}, lines) : make("span", { class: "why" }, refusalText(first, entry));
    const dismiss = button(t("understood"), () => this.pending.dismiss(entry), "plain");
    const isOpen = entry.refusals.some(({ code }) => code === "password_choice_needed");
    return [
      make("div", { class: "what" }, what, why),
      isOpen && button(t("choose_password"), () => this.choosePassword(), "plain"),
      dismiss,
    ];
  }

  /** Decide again about those of whom it has to be said which password counts. */
  async choosePassword() {
    const open = this.entry.refusals.filter(({ code }) => code === "password_choice_needed");
    const usernames = open.map(({ username }) => username);
    const passwordChoice = await askPassword(usernames);
    if (passwordChoice !== null) {
      this.pending.dismiss(this.entry);
      this.pending.add({ ...this.entry.stored, usernames, passwordChoice });
    }
  }

  /** @param {Child[]} children */
  description(...children) {
    const { entry } = this;
    const { reason: given = "", passwordChoice, mayReapply, silent } = entry.details;
    const reason = [
      wordReason(given),
      passwordChoice && t(`choice_${passwordChoice}`),
      mayReapply && t("may_reapply"),
      describeTerm(entry.details),
      silent && t("silently"),
    ]
      .filter(Boolean)
      .join(" · ");
    return make(
      "div",
      { class: "what" },
      make("b", {}, describeDecision(entry)),
      reason && make("span", { class: "reason" }, reason),
      children,
    );
  }

  undoButton() {
    const names = listNames(this.entry.usernames);
    const label = `${t("undo")}: ${t(`will_${this.entry.decision}`, { names })}`;
    const undo = () => this.pending.undo(this.entry);
    return make("button", { type: "button", class: "quiet", "aria-label": label, onclick: undo }, t("undo"));
  }
}

/**
 * Another operator was faster where the status is not the one that was shown.
 *
 * @param {DecisionOutcome} outcome
 * @param {PendingDecision} entry
 */
function refusalText({ code, status, message, username }, { shown }) {
  const wasFaster = code === "wrong_status" && shown[username] !== undefined && shown[username] !== status;
  return wasFaster ? t("somebody_faster", { status: statusInSentence(status ?? "") }) : message;
}
