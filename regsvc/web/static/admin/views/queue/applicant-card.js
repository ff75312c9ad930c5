// The card of the applicant who is open: summary, details and the decisions.

import { asRefusal } from "../../../shared/api.js";
import { button, make, replaceContent } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";
import { givePoints, NotesSection } from "../../additions.js";
import { foldedWhy } from "../../why.js";
import { renderActions, renderDetails, renderMoreActions, renderSummary } from "./applicant.js";

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
    this.element = make("article", { class: "applicant" });
  }

  /** @param {ListedUser | null} applicant null: the card is empty */
  render(applicant) {
    if (applicant === null) {
      replaceContent(this.element);
      return;
    }
    this.title = make("h3", { tabindex: "-1" }, applicant.username);
    const details = make("div", { class: "details" }, make("p", { class: "quiet-text" }, t("loading")));
    const notes = new NotesSection(this.context, applicant.username, "h4");
    notes.onAdded = () => this.loadAgain(applicant, details, notes);
    const act = (/** @type {import("./applicant.js").ActionName} */ name) => this.actions.act(name, applicant);
    replaceContent(
      this.element,
      make("header", {}, this.title),
      renderActions(act, renderMoreActions(this.context, applicant.username, act)),
      renderSummary(applicant),
      details,
      notes.element,
      foldedWhy(this.context, applicant.username),
    );
    this.loadDetails(applicant, details, notes);
  }

  focus() {
    this.title.focus();
  }

  /**
   * @param {ListedUser} applicant
   * @param {HTMLElement} container
   * @param {NotesSection} notes
   */
  loadAgain(applicant, container, notes) {
    this.applicants.forget(applicant.username);
    return this.loadDetails(applicant, container, notes);
  }

  /**
   * @param {ListedUser} applicant
   * @param {HTMLElement} container
   * @param {NotesSection} notes
   */
  async loadDetails(applicant, container, notes) {
    try {
      const user = await this.applicants.details(applicant.username);
      const judge = givePoints(this.context, applicant.username, () => this.loadAgain(applicant, container, notes));
      replaceContent(container, renderDetails(user, "h4", judge));
      notes.update(user);
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal.code === "user_not_found") {
        this.actions.onGone(applicant);
        return;
      }
      const retry = button(t("try_again"), () => this.loadDetails(applicant, container, notes), "quiet");
      replaceContent(container, make("p", { class: "notice", "data-kind": "bad" }, refusal.message), retry);
    }
    this.actions.onShown(applicant);
  }
}
