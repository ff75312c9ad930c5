// The list of applicants: one line each, with what an operator wants to know before opening it.

import { make, replaceContent } from "../../../shared/dom.js";
import { headOf } from "../../../shared/heads.js";
import { t } from "../../../shared/i18n.js";
import { askedBadge, badge, signalBadge } from "../../badges.js";
import { timeAgo } from "../../phrases.js";
import { shownSignals } from "./applicant-summary.js";

/**
 * @typedef {object} ListActions
 * @property {(applicant: ListedUser, isByKey: boolean) => unknown} open
 * @property {(positions: 1 | -1) => unknown} move opens a neighbour of the open applicant
 * @property {(applicant: ListedUser, isSelected: boolean) => unknown} select
 */

export class ApplicantList {
  /** @type {Map<ListedUser, ApplicantRow>} */
  #rows = new Map();

  /** @param {ListActions} actions */
  constructor(actions) {
    this.actions = actions;
    const onkeydown = (/** @type {KeyboardEvent} */ event) => this.handleKey(event);
    this.element = make("ol", { class: "applicants", onkeydown });
    this.sizes = new ResizeObserver(() => this.countHiddenTags());
    this.sizes.observe(this.element);
  }

  /**
   * Render the list; rows that stay keep their elements, and with them the focus and the scroll position.
   *
   * @param {ListedUser[]} applicants
   * @param {ListedUser | null} current
   * @param {Set<ListedUser>} selected
   */
  render(applicants, current, selected) {
    const rows = applicants.map((applicant) => this.#rows.get(applicant) ?? new ApplicantRow(applicant, this.actions));
    this.#rows = new Map(rows.map((row) => [row.applicant, row]));
    this.replaceRows(rows.map(({ element }) => element));
    const reachable = applicants.includes(/** @type {ListedUser} */ (current)) ? current : (applicants[0] ?? null);
    rows.forEach((row) => {
      row.update(row.applicant === current, selected.has(row.applicant));
      row.setReachable(row.applicant === reachable);
    });
  }

  /**
   * Move through the list with the arrow keys, also where single-key shortcuts are off: only one row is a tab stop.
   *
   * @param {KeyboardEvent} event
   */
  handleKey(event) {
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      this.actions.move(event.key === "ArrowDown" ? 1 : -1);
    }
  }

  /** @param {Element[]} elements */
  replaceRows(elements) {
    const { children } = this.element;
    if (elements.length === children.length && elements.every((element, index) => element === children[index])) {
      return;
    }
    const kept = new Set(elements);
    [...children].filter((element) => !kept.has(element)).forEach((element) => element.remove());
    elements.forEach((element, index) => {
      if (children[index] !== element) {
        this.element.insertBefore(element, children[index] ?? null);
      }
    });
  }

  /**
   * Move the focus to an applicant; returns whether that was possible, as a phone does not always show the list.
   *
   * @param {ListedUser | null} applicant
   */
  focus(applicant) {
    const button = applicant === null ? undefined : this.#rows.get(applicant)?.button;
    if (!button?.checkVisibility()) {
      return false;
    }
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
    return true;
  }

  /** Tell on each row how many of its tags do not fit, all measured before anything changes. */
  countHiddenTags() {
    const counts = [...this.#rows.values()].map((row) => ({ row, count: row.countHidden() }));
    counts.forEach(({ row, count }) => {
      row.more.textContent = count > 0 ? `+${count}` : "";
    });
  }

  updateTimes() {
    this.#rows.forEach((row) => row.updateTime());
  }
}

class ApplicantRow {
  /**
   * @param {ListedUser} applicant
   * @param {ListActions} actions
   */
  constructor(applicant, { open, select }) {
    const { username } = applicant;
    this.applicant = applicant;
    this.time = make("span", { class: "since" });
    this.tags = make("span", { class: "tags" }, renderTags(applicant));
    this.more = make("span", { class: "more-tags", "aria-hidden": "true" });
    this.checkbox = make("input", {
      type: "checkbox",
      "aria-label": t("choose_person", { name: username }),
      onchange: (/** @type {{ target: HTMLInputElement }} */ { target }) => select(applicant, target.checked),
    });
    this.button = make(
      "button",
      {
        type: "button",
        class: "line",
        onclick: (/** @type {MouseEvent} */ { detail }) => open(applicant, detail === 0),
      },
      headOf(username, { "aria-hidden": "true" }),
      make("span", { class: "name" }, username),
      this.time,
      make("span", { class: "marks" }, this.tags, this.more, renderScore(applicant)),
    );
    this.element = make("li", {}, make("label", { class: "tick" }, this.checkbox), this.button);
    this.updateTime();
  }

  /**
   * @param {boolean} isCurrent
   * @param {boolean} isSelected
   */
  update(isCurrent, isSelected) {
    this.checkbox.checked = isSelected;
    if (isCurrent) {
      this.button.setAttribute("aria-current", "true");
    } else {
      this.button.removeAttribute("aria-current");
    }
  }

  /** @param {boolean} isReachable with the Tab key */
  setReachable(isReachable) {
    this.button.tabIndex = isReachable ? 0 : -1;
    this.checkbox.tabIndex = isReachable ? 0 : -1;
  }

  /** Return how many tags are cut off, in a second line. */
  countHidden() {
    const tags = /** @type {HTMLElement[]} */ ([...this.tags.children]);
    return tags.filter(({ offsetTop }) => offsetTop >= tags[0].offsetTop + tags[0].offsetHeight).length;
  }

  updateTime() {
    replaceContent(this.time, timeAgo(this.applicant.regTime));
  }
}

/** @param {ListedUser} applicant */
function renderScore({ questionnaireScore: score }) {
  return score !== null && make("span", { class: "points-sum" }, t("points", { score }));
}

/**
 * Render as tags what is special about the applicant.
 *
 * An operator's name and what warns come first: a narrow row cuts the end.
 *
 * @param {ListedUser} applicant
 */
export function renderTags(applicant) {
  const { isOperator, platform, rejections, signals } = applicant;
  const { questionnairePassed, questionnaireRequiresReview, questionnaireUnread: unread } = applicant;
  const rejected = rejections?.count ?? 0;
  return [
    isOperator && badge(t("operator"), "bad"),
    askedBadge(applicant),
    rejected > 0 && badge(t("rejected_times", { count: rejected }), "bad"),
    shownSignals(signals).map(signalBadge),
    questionnaireRequiresReview && badge(unread ? t("tag_to_read", { count: unread }) : t("to_be_read"), "wait"),
    questionnairePassed === false && !questionnaireRequiresReview && badge(t("failed"), "bad"),
    platform === "bedrock" && badge(t("bedrock")),
  ];
}
