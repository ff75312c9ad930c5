// What the team adds to an application: notes, and points of answers.

import { make, replaceContent, uniqueId } from "../shared/dom.js";
import { formatTime, t } from "../shared/i18n.js";
import { dropDraft, keepDraft } from "./browser-storage.js";
import { may } from "./permissions.js";
import { sendChange } from "./send-change.js";

/** The notes, and the form for a new one, which stays as it is while the list changes. */
export class NotesSection {
  /**
   * @param {import("./view-context.js").ViewContext} context
   * @param {string} username
   * @param {"h3" | "h4"} level of the heading
   */
  constructor({ api }, username, level) {
    this.api = api;
    this.username = username;
    /** @type {() => unknown} */
    this.onAdded = () => null;
    const id = uniqueId("note");
    this.text = make("textarea", { id, rows: "2", maxlength: "2000", required: true });
    keepDraft(this.text, "note", username);
    this.list = make("div", { class: "notes" });
    const form = make(
      "form",
      { onsubmit: (/** @type {Event} */ event) => this.send(event) },
      make("div", { class: "field" }, make("label", { for: id }, t("note_label")), this.text),
      make("button", { type: "submit", class: "quiet" }, t("note_add")),
    );
    this.element = make(
      "section",
      { hidden: true },
      make(level, {}, t("notes")),
      this.list,
      may("users.review") && form,
    );
  }

  /** @param {UserDetails | null} user null: there is no such user any more */
  update(user) {
    this.element.hidden = user === null;
    const notes = user?.notes ?? [];
    replaceContent(
      this.list,
      notes.length === 0
        ? make("p", { class: "quiet-text" }, t("notes_none"))
        : make("ol", { class: "history" }, notes.map(renderNote)),
    );
  }

  /** @param {Event} event */
  async send(event) {
    event.preventDefault();
    const body = { username: this.username, text: this.text.value };
    await sendChange(
      () => this.api.post("admin/user/note", body),
      () => {
        this.text.value = "";
        dropDraft("note", this.username);
        return this.onAdded();
      },
    );
  }
}

/** @param {UserDetails["notes"][number]} note */
function renderNote({ text, author, createdAt }) {
  return make("li", {}, t("note_by", { author, at: formatTime(createdAt) }), make("blockquote", {}, text));
}

/**
 * Return what gives the points of an answer. Points that are typed stay while the answers are drawn anew.
 *
 * @param {import("./view-context.js").ViewContext} context
 * @param {string} username
 * @param {() => unknown} onGiven
 */
export function givePoints({ api }, username, onGiven) {
  const draft = (/** @type {number} */ questionId) => `points ${questionId}`;
  return {
    keepTyped: (/** @type {HTMLInputElement} */ input, /** @type {number} */ questionId, /** @type {string} */ given) =>
      keepDraft(input, draft(questionId), username, given),
    give: (/** @type {number} */ questionId, /** @type {number} */ points) =>
      sendChange(
        () => api.post("admin/user/points", { username, questionId, points }),
        () => {
          dropDraft(draft(questionId), username);
          return onGiven();
        },
      ),
  };
}
