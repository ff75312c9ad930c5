// The card of the applicant who is open: summary, details and the decisions.

import { asRefusal } from "../../../shared/api.js";
import { button, make, replaceContent } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";
import { may } from "../../permissions.js";
import { renderTags } from "./applicant-list.js";
import { renderActions, renderMoreActions, renderSummary, renderWarnings } from "./applicant-summary.js";

/** @typedef {import("../../additions.js").NotesSection} NotesSection */
/**
 * @typedef {{ answers: HTMLElement, record: HTMLElement, below: HTMLElement[] }} Details the places of what is loaded,
 *   and what comes below it: shown with it, as it would move else
 */

/**
 * @typedef {object} CardActions
 * @property {(name: import("./applicant-summary.js").ActionName, applicant: ListedUser) => unknown} act
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
    const facts = renderSummary(applicant);
    facts.hidden = true;
    /** @type {Details} */
    const details = { answers: make("div", { class: "details" }, loading), record: make("div", {}), below: [facts] };
    const act = (/** @type {import("./applicant-summary.js").ActionName} */ name) => this.actions.act(name, applicant);
    const warnings = make("div", { class: "warnings" }, renderWarnings(applicant));
    const side = make("div", { class: "side" }, warnings, details.record);
    const isTyping = document.activeElement === this.notes?.text;
    if (this.context.rest !== null) {
      this.complete(this.context.rest, applicant, details, side);
    }
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
      side,
    );
    if (this.context.rest === null) {
      this.completeLater(applicant, details, side);
    } else if (isTyping && side.contains(this.notes?.text ?? null)) {
      this.notes?.text.focus({ preventScroll: true });
    }
  }

  /**
   * @param {ListedUser} applicant
   * @param {Details} details
   * @param {HTMLElement} side
   */
  async completeLater(applicant, details, side) {
    const rest = await this.context.loadRest();
    if (side.isConnected) {
      this.complete(rest, applicant, details, side);
    }
  }

  /**
   * Add the notes and why the applicant cannot join, and load the details.
   *
   * @param {import("../../later.js").Rest} rest
   * @param {ListedUser} applicant
   * @param {Details} details
   * @param {HTMLElement} side
   */
  complete(rest, applicant, details, side) {
    const why = rest.foldedWhy(this.context, applicant.username);
    why.hidden = true;
    details.below.push(why);
    // loaded again, an applicant keeps the form, in which a note may be being typed
    const isSame = this.notes?.username === applicant.username;
    const notes = (isSame ? this.notes : null) ?? new rest.NotesSection(this.context, applicant.username, "h4");
    this.notes = notes;
    notes.onAdded = () => this.loadAgain(rest, applicant, details, notes);
    side.append(notes.element, why);
    this.loadDetails(rest, applicant, details, notes);
  }

  focus() {
    this.title.focus();
  }

  /**
   * @param {import("../../later.js").Rest} rest
   * @param {ListedUser} applicant
   * @param {Details} details
   * @param {NotesSection} notes
   */
  loadAgain(rest, applicant, details, notes) {
    this.applicants.forget(applicant.username);
    return this.loadDetails(rest, applicant, details, notes);
  }

  /**
   * @param {import("../../later.js").Rest} rest
   * @param {ListedUser} applicant
   * @param {Details} details
   * @param {NotesSection} notes
   */
  async loadDetails(rest, applicant, details, notes) {
    try {
      const user = await this.applicants.details(applicant.username);
      const again = () => this.loadAgain(rest, applicant, details, notes);
      const judge = rest.givePoints(this.context, applicant.username, again);
      replaceContent(details.answers, rest.renderConversation(user, "h4"), rest.renderAnswers(user, "h4", judge));
      replaceContent(details.record, rest.renderRecord(user, "h4"));
      notes.update(user);
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal.code === "user_not_found") {
        this.actions.onGone(applicant);
        return;
      }
      const retry = button(t("try_again"), () => this.loadDetails(rest, applicant, details, notes), "quiet");
      replaceContent(details.answers, make("p", { class: "notice", "data-kind": "bad" }, refusal.message), retry);
    }
    details.below.forEach((element) => {
      element.hidden = false;
    });
    this.actions.onShown(applicant);
  }
}
