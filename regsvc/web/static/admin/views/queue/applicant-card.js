// The card of the applicant who is open: summary, details and the decisions.

import { asRefusal } from "../../../shared/api.js";
import { button, make, replaceContent } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";
import { givePoints, NotesSection } from "../../additions.js";
import { may } from "../../permissions.js";
import { foldedWhy } from "../../why.js";
import {
  renderActions,
  renderAnswers,
  renderConversation,
  renderFacts,
  renderMoreActions,
  renderRecord,
  renderWarnings,
} from "./applicant.js";
import { renderTags } from "./applicant-list.js";

/**
 * @typedef {{ answers: HTMLElement, record: HTMLElement, below: HTMLElement[] }} Details the places of what is loaded,
 *   and what comes below it: shown with it, as it would move else
 */

/**
 * @typedef {object} CardActions
 * @property {(name: import("./applicant.js").ActionName, applicant: ListedUser) => unknown} act
 * @property {(applicant: ListedUser) => unknown} onShown called when the details are shown
 * @property {(applicant: ListedUser) => unknown} onGone called when the user does not exist any more
 */

export class ApplicantCard {
  /**
   * @param {import("../../view-context.js").ViewContext} context
   * @param {import("./applicants.js").Applicants} applicants
   * @param {CardActions} actions
   */
  constructor(context, applicants, actions) {
    this.context = context;
    this.applicants = applicants;
    this.actions = actions;
    this.title = make("h3", { tabindex: "-1" });
    /** @type {NotesSection | null} of the applicant who is open */
    this.notes = null;
    this.element = make("article", { class: "applicant" });
  }

  /** @param {ListedUser | null} applicant null: the card is empty */
  render(applicant) {
    if (applicant === null) {
      this.notes = null;
      replaceContent(this.element);
      return;
    }
    this.title = make("h3", { tabindex: "-1" }, applicant.username);
    const loading = make("p", { class: "quiet-text" }, t("loading"));
    const [facts, why] = [renderFacts(applicant), foldedWhy(this.context, applicant.username)];
    /** @type {Details} */
    const details = {
      answers: make("div", { class: "details" }, loading),
      record: make("div", {}),
      below: [facts, why],
    };
    details.below.forEach((element) => {
      element.hidden = true;
    });
    // loaded again, an applicant keeps the form, in which a note may be being typed
    const isSame = this.notes?.username === applicant.username;
    const notes = (isSame ? this.notes : null) ?? new NotesSection(this.context, applicant.username, "h4");
    const isTyping = document.activeElement === notes.text;
    this.notes = notes;
    notes.onAdded = () => this.loadAgain(applicant, details, notes);
    const act = (/** @type {import("./applicant.js").ActionName} */ name) => this.actions.act(name, applicant);
    replaceContent(
      this.element,
      make(
        "div",
        { class: "application" },
        make("header", {}, this.title, renderTags(applicant)),
        renderActions(act, may("users.review"), renderMoreActions(this.context, applicant.username, act)),
        details.answers,
        facts,
      ),
      make(
        "div",
        { class: "side" },
        make("div", { class: "warnings" }, renderWarnings(applicant)),
        details.record,
        notes.element,
        why,
      ),
    );
    if (isTyping) {
      notes.text.focus({ preventScroll: true });
    }
    this.loadDetails(applicant, details, notes);
  }

  focus() {
    this.title.focus();
  }

  /**
   * @param {ListedUser} applicant
   * @param {Details} details
   * @param {NotesSection} notes
   */
  loadAgain(applicant, details, notes) {
    this.applicants.forget(applicant.username);
    return this.loadDetails(applicant, details, notes);
  }

  /**
   * @param {ListedUser} applicant
   * @param {Details} details
   * @param {NotesSection} notes
   */
  async loadDetails(applicant, details, notes) {
    try {
      const user = await this.applicants.details(applicant.username);
      const judge = givePoints(this.context, applicant.username, () => this.loadAgain(applicant, details, notes));
      replaceContent(details.answers, renderConversation(user, "h4"), renderAnswers(user, "h4", judge));
      replaceContent(details.record, renderRecord(user, "h4"));
      notes.update(user);
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal.code === "user_not_found") {
        this.actions.onGone(applicant);
        return;
      }
      const retry = button(t("try_again"), () => this.loadDetails(applicant, details, notes), "quiet");
      replaceContent(details.answers, make("p", { class: "notice", "data-kind": "bad" }, refusal.message), retry);
    }
    details.below.forEach((element) => {
      element.hidden = false;
    });
    this.actions.onShown(applicant);
  }
}
