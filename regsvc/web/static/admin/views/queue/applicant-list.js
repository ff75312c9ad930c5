// The list of who waits: one line each, with what one needs to know before looking.

import { fillWith, make } from "../../../shared/dom.js";
import { word } from "../../../shared/i18n.js";
import { ago } from "../../phrases.js";

export class PeopleList {
  /** `open(person)` shows somebody; `choose(person, isChosen)` puts him among those who are decided about together. */
  constructor({ open, choose }) {
    Object.assign(this, { open, choose });
    this.rows = new Map(); // by person
    this.element = make("ol", { class: "people" });
  }

  /** Rows that are there stay the same elements, so that nobody loses his place. */
  draw(people, current, chosen) {
    const rows = people.map((person) => this.rows.get(person) ?? new Line(person, this));
    const elements = rows.map(({ element }) => element);
    if (elements.length !== this.element.children.length || elements.some((element, place) => element !== this.element.children[place])) {
      this.replace(elements);
    }
    this.rows = new Map(rows.map((row) => [row.person, row]));
    rows.forEach((row) => row.mark(row.person === current, chosen.has(row.person)));
  }

  /** Only what differs is touched: the focus, and where the list was scrolled to, stay. */
  replace(elements) {
    const kept = new Set(elements);
    [...this.element.children].filter((element) => !kept.has(element)).forEach((element) => element.remove());
    elements.forEach((element, place) => {
      if (this.element.children[place] !== element) {
        this.element.insertBefore(element, this.element.children[place] ?? null);
      }
    });
  }

  /** Go to somebody. Comes back with whether that was possible: on a phone the list is not always shown. */
  focus(person) {
    const button = this.rows.get(person)?.button;
    if (!button?.checkVisibility()) {
      return false;
    }
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
    return true;
  }

  /** The waiting times go on. */
  tick() {
    this.rows.forEach((row) => row.tick());
  }
}

class Line {
  constructor(person, list) {
    this.person = person;
    this.since = make("span", { class: "since" });
    this.box = make("input", {
      type: "checkbox",
      "aria-label": word("choose_person", { name: person.username }),
      onchange: ({ target }) => list.choose(person, target.checked),
    });
    const name = make("span", { class: "name" }, person.username);
    this.button = make("button", { type: "button", class: "line", onclick: () => list.open(person) }, name, this.since, make("span", { class: "marks" }, marksOf(person)));
    this.element = make("li", {}, make("label", { class: "tick" }, this.box), this.button);
    this.tick();
  }

  mark(isCurrent, isChosen) {
    this.box.checked = isChosen;
    if (isCurrent) {
      this.button.setAttribute("aria-current", "true");
    } else {
      this.button.removeAttribute("aria-current");
    }
  }

  tick() {
    fillWith(this.since, ago(this.person.regTime));
  }
}

/** The score and what was rejected before, in a word each. */
export function marksOf({ questionnaireScore, questionnairePassed, rejections, platform }) {
  return [
    questionnaireScore !== null &&
      make("span", { class: "badge", "data-kind": questionnairePassed ? "good" : "bad" }, word("points", { score: questionnaireScore })),
    rejections?.count > 0 && make("span", { class: "badge", "data-kind": "bad" }, word("rejected_times", { count: rejections.count })),
    platform === "bedrock" && make("span", { class: "badge" }, word("bedrock")),
  ];
}
