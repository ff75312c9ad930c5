// The dialog before a decision: the reason (typed or saved), the end of a ban or of the membership that an approval
// begins, and whether the user is mailed.

import { config } from "../../shared/config.js";
import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { dropDraft, keepDraft } from "../browser-storage.js";
import { countNames } from "../phrases.js";
import { BanEndField, MembershipEndField } from "./end-field.js";
import {
  encodeReason,
  isBuiltIn,
  lastReason,
  rememberReason,
  removeReason,
  savedReasons,
  saveReason,
  wordReason,
} from "./saved-reasons.js";

const LONGEST_REASON = 4000; // characters, as in the API

/**
 * @typedef {object} DialogOptions
 * @property {DecisionName} decision
 * @property {string[]} usernames
 * @property {string | null} [key] a key that confirms while no text is being typed, so that pressing it twice decides
 * @property {string | null} [reason] the initial reason; null for the last one given
 * @property {boolean} [isForTerm] whether an approval is asked about because of the membership that it begins
 * @property {number | null} [end] the end of the ban that is changed, epoch milliseconds; undefined for a new one
 */

/**
 * @typedef {{ reason: string, silent: boolean, expiresAt?: number | null, mayReapply?: boolean, until?: number | null,
 *   for?: string }} DialogAnswer `expiresAt` for a ban only, `mayReapply` for a rejection, `until` and `for` for an
 *   approval
 */

/**
 * Ask for the details of a decision; resolves to null if the dialog was cancelled.
 *
 * @param {DialogOptions} options
 * @returns {Promise<DialogAnswer | null>}
 */
export function askDecision(options) {
  return new Promise((resolve) => {
    new DecisionDialog(options, resolve).open();
  });
}

class DecisionDialog {
  /**
   * @param {DialogOptions} options
   * @param {(answer: DialogAnswer | null) => void} resolve
   */
  constructor({ decision, usernames, key = null, reason = null, isForTerm = false, end }, resolve) {
    this.decision = decision;
    this.key = key;
    this.isChange = end !== undefined;
    /** @type {DialogAnswer | null} */
    this.answer = null;
    this.group = uniqueId("text");
    /** @type {Array<{ reason: string, input: HTMLInputElement, element: HTMLElement }>} */
    this.choices = [];
    this.reasons = make("div", { class: "reasons" });
    /** Whom a reason is kept for that is being typed; null for many users. */
    this.username = usernames.length === 1 ? usernames[0] : null;
    this.reason = this.reasonField(wordReason(reason ?? lastReason(decision)));
    this.hint = make("span", { class: "quiet-text", id: uniqueId("hint") }, t("reason_translated"));
    this.error = make("p", { class: "error", id: uniqueId("error") });
    this.reason.setAttribute("aria-describedby", `${this.error.id} ${this.hint.id}`);
    const isMessage = this.isMessage;
    this.save = button(t(isMessage ? "message_save" : "text_save"), () => this.saveReason(), "plain");
    this.remove = button(t(isMessage ? "message_remove" : "text_remove"), () => this.removeReason(), "plain");
    this.silent = make("input", { type: "checkbox", checked: decision === "reopen" });
    this.mayReapply = decision === "reject" ? make("input", { type: "checkbox" }) : null;
    this.end = decision === "ban" ? new BanEndField(end) : null;
    this.membership = this.isMessage && config.memberFor ? new MembershipEndField({ isNew: true }) : null;
    this.first = isForTerm ? this.membership?.length : null;
    this.dialog = this.makeDialog(usernames);
    this.dialog.addEventListener("cancel", () => this.dropDraft());
    this.dialog.addEventListener("close", () => {
      this.dialog.remove();
      resolve(this.answer);
    });
  }

  /** Whether the reason is a message: those who are approved need none. */
  get isMessage() {
    return this.decision === "approve";
  }

  /** The reason: the code of a built-in one, or words. */
  get value() {
    return encodeReason(this.decision, this.reason.value.trim());
  }

  open() {
    this.renderReasons();
    document.body.append(this.dialog);
    this.dialog.showModal();
    const checked = /** @type {HTMLElement | null} */ (this.reasons.querySelector("input:checked"));
    (this.first ?? checked ?? this.reason).focus();
  }

  /** @param {string[]} usernames */
  makeDialog(usernames) {
    const title = uniqueId("title");
    const links = make("div", { class: "text-buttons" }, this.save, this.remove, this.hint);
    const form = make(
      "form",
      { novalidate: true, onsubmit: (/** @type {Event} */ event) => this.confirm(event) },
      make(
        "fieldset",
        { class: "field" },
        make("legend", {}, t(this.isMessage ? "message" : "reason")),
        this.reasons,
        make("label", { for: this.reason.id }, t(this.isMessage ? "message_words" : "reason_words")),
        this.reason,
        this.error,
        links,
      ),
      (this.end ?? this.membership)?.element,
      this.mayReapply && make("label", { class: "option" }, this.mayReapply, make("span", {}, t("may_reapply"))),
      make("label", { class: "option" }, this.silent, make("span", {}, t("silent"))),
      this.makeButtons(),
    );
    return make(
      "dialog",
      {
        class: "decision",
        "aria-labelledby": title,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
      },
      make(
        "h2",
        { id: title },
        t(this.isChange ? "ask_change_ban" : `ask_${this.decision}`, { names: countNames(usernames) }),
      ),
      usernames.length > 1 && make("p", { class: "who" }, usernames.join(t("between_names"))),
      form,
    );
  }

  /** @param {string} value */
  reasonField(value) {
    const field = make("textarea", {
      id: uniqueId("reason"),
      rows: 3,
      maxlength: LONGEST_REASON,
      oninput: () => this.updateChoices(),
    });
    field.value = value;
    if (this.username !== null) {
      keepDraft(field, this.decision, this.username, value);
    }
    return field;
  }

  makeButtons() {
    const kind = this.decision === "approve" || this.decision === "unban" ? null : "danger";
    const confirm = make("button", { class: kind }, t(this.isChange ? "key_change_ban" : `do_${this.decision}`));
    const cancel = button(t("cancel"), () => this.cancel(), "quiet");
    return make("div", { class: "buttons" }, confirm, cancel);
  }

  cancel() {
    this.dropDraft();
    this.dialog.close();
  }

  /** The reason was sent, or the operator wants to give none: one that a reload interrupts is kept. */
  dropDraft() {
    if (this.username !== null) {
      dropDraft(this.decision, this.username);
    }
  }

  /** Render the saved reasons, each with its digit, after a choice for none. */
  renderReasons() {
    const none = this.decision === "ban" ? [] : [""];
    this.choices = [...none, ...savedReasons(this.decision)].map((reason, index) => {
      const input = make("input", { type: "radio", name: this.group, onchange: () => this.choose(reason) });
      const number = index + 1 - none.length;
      const digit = number <= 9 && make("kbd", { "aria-hidden": "true" }, String(number));
      const label = make("span", {}, wordReason(reason) || t(this.isMessage ? "no_message" : "no_reason"));
      return { reason, input, element: make("label", { class: "option" }, input, digit, label) };
    });
    replaceContent(
      this.reasons,
      this.choices.map(({ element }) => element),
    );
    this.updateChoices();
  }

  /** @param {string} reason */
  choose(reason) {
    this.reason.value = wordReason(reason);
    this.updateChoices();
  }

  /** Check the saved reason that the text is equal to, if any. */
  updateChoices() {
    const reason = this.value;
    this.error.textContent = "";
    const saved = this.choices.find((choice) => choice.reason === reason);
    for (const choice of this.choices) {
      choice.input.checked = choice === saved;
    }
    this.hint.hidden = !isBuiltIn(reason);
    this.save.hidden = saved !== undefined;
    this.remove.hidden = saved === undefined || reason === "";
  }

  saveReason() {
    saveReason(this.decision, this.value);
    this.renderReasons();
    this.reason.focus();
  }

  removeReason() {
    removeReason(this.decision, this.value);
    this.renderReasons();
    this.reason.focus();
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.isComposing || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    const isTyping = event.target === this.reason;
    if (event.key === "Enter" && isTyping && !event.shiftKey) {
      event.preventDefault();
      this.confirm(event);
    } else if (!isTyping && /** @type {Element} */ (event.target).matches("[type=radio]") && !event.repeat) {
      this.handleChoiceKey(event);
    }
  }

  /**
   * On the saved reasons, a digit chooses one, and the key that opened the dialog confirms it.
   *
   * @param {KeyboardEvent} event
   */
  handleChoiceKey(event) {
    const first = this.decision === "ban" ? 1 : 0; // the number of the first choice
    const choice = /^[0-9]$/.test(event.key) ? this.choices[Number(event.key) - first] : undefined;
    if (choice) {
      event.preventDefault();
      this.choose(choice.reason);
      choice.input.focus();
    } else if (event.key.toLowerCase() === this.key) {
      event.preventDefault();
      this.confirm(event);
    }
  }

  /** @param {Event} event */
  confirm(event) {
    event.preventDefault();
    if ((this.end ?? this.membership)?.validate() === false) {
      return;
    }
    const reason = this.value;
    if (this.decision === "ban" && reason === "") {
      this.error.textContent = t("reason_missing");
      this.reason.focus();
      return;
    }
    rememberReason(this.decision, reason);
    this.dropDraft();
    const expiresAt = this.end === null ? {} : { expiresAt: this.end.value };
    const mayReapply = this.mayReapply === null ? {} : { mayReapply: this.mayReapply.checked };
    this.answer = { reason, silent: this.silent.checked, ...expiresAt, ...mayReapply, ...this.membership?.term };
    this.dialog.close();
  }
}
