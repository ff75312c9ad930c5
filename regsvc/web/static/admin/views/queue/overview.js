// The review queue in figures, each of which leads to what it counts.

import { link, make, replaceContent } from "../../../shared/dom.js";
import { language, t } from "../../../shared/i18n.js";
import { may } from "../../permissions.js";
import { formatDuration, formatNumber, timeAgo } from "../../phrases.js";

const NONE = "–";

/** @typedef {GetReply<"admin/overview">} Overview */
/** @typedef {NonNullable<Overview["decided"]>[number]} DecidedDay */

export class OverviewStrip {
  /**
   * @param {import("../../view-context.js").ViewContext} context
   * @param {import("../../live-updates.js").LiveUpdates} updates
   * @param {HTMLElement} element its place
   */
  constructor(context, updates, element) {
    this.context = context;
    this.updates = updates;
    this.element = element;
    context.effect(() => this.render());
  }

  render() {
    const { overview, waiting } = this.updates;
    replaceContent(this.element, overview.value === null ? [] : this.figures(overview.value, waiting));
  }

  /**
   * @param {Overview} overview
   * @param {number} waiting without those whom pending decisions are about
   */
  figures({ waiting: counted, asked, oldest, oldestSince, usualSeconds, decided, ...members }, waiting) {
    const { hashFor } = this.context;
    const count = counted === null ? t("very_many") : formatNumber(waiting);
    return [
      figure(
        "overview_waiting",
        waiting ? link(hashFor("queue", { waitingFor: "review" }), count) : t("overview_nobody"),
      ),
      figure(
        "overview_oldest",
        waiting > 0 && oldest !== null && link(hashFor("queue", { name: oldest }), timeAgo(oldestSince ?? 0)),
      ),
      figure("overview_usual", usualSeconds !== null && formatDuration(usualSeconds)),
      figure(
        "overview_asked",
        asked !== 0 &&
          link(hashFor("queue", { waitingFor: "applicant" }), asked === null ? t("very_many") : formatNumber(asked)),
      ),
      this.members("overview_stay", "asked", members.stayAsked),
      this.members("overview_ending", "ending", members.endingThisWeek),
      figure("overview_decided", decided === null ? t("very_many") : this.decisions(decided)),
    ];
  }

  /**
   * Count memberships of which the team has to know, with a link to them; most hosts have none, and no figure.
   *
   * @param {string} label the key of its text
   * @param {string} membership the filter of the list of users
   * @param {number | null} count null: very many
   */
  members(label, membership, count) {
    const text = count === null ? t("very_many") : formatNumber(count);
    return count !== 0 && figure(label, link(this.context.hashFor("users", { membership }), text));
  }

  /** @param {DecidedDay[]} days */
  decisions(days) {
    const from = days[0].day;
    const sum = (/** @type {"approved" | "rejected"} */ outcome) => days.reduce((all, day) => all + day[outcome], 0);
    const total = (/** @type {"approved" | "rejected"} */ outcome) => {
      const text = t(`overview_${outcome}`, { count: formatNumber(sum(outcome)) });
      const address = this.context.hashFor("audits", { action: `user.${outcome}`, from });
      return may("audit.read") ? link(address, text) : make("span", {}, text);
    };
    return [total("approved"), " ", total("rejected"), bars(days)];
  }
}

/**
 * @param {string} label the key of its text
 * @param {Child} value
 */
function figure(label, value) {
  if (value instanceof HTMLAnchorElement) {
    value.ariaLabel = `${t(label)}: ${value.textContent}`; // read without the text beside it
  }
  return make("li", {}, make("span", { class: "label" }, t(label)), make("span", { class: "value" }, value || NONE));
}

/**
 * Draw a bar for each day, the highest as tall as the picture.
 *
 * @param {DecidedDay[]} days
 */
function bars(days) {
  const most = Math.max(1, ...days.map(({ approved, rejected }) => approved + rejected));
  const label = days.map(describeDay).join("; ");
  const picture = draw("svg", {
    class: "bars",
    viewBox: `0 0 ${days.length * 5} 10`,
    role: "img",
    "aria-label": label,
  });
  days.forEach((day, index) => {
    const height = Math.max(1, (10 * (day.approved + day.rejected)) / most);
    // hidden: the picture has a text
    const bar = draw("rect", { x: index * 5, y: 10 - height, width: 4, height, "aria-hidden": "true" });
    const title = draw("title", {});
    title.textContent = describeDay(day);
    bar.append(title);
    picture.append(bar);
  });
  return picture;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 */
function draw(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, String(value));
  }
  return element;
}

/** @param {DecidedDay} day */
function describeDay({ day, approved, rejected }) {
  const date = new Date(`${day}T12:00`).toLocaleDateString(language, {
    weekday: "short",
    day: "numeric",
    month: "short",
  });
  return t("overview_day", { day: date, approved, rejected });
}
