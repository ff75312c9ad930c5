// Above every view: where one can go, whether what one sees is live, and who one is.

import { button, link, make } from "../shared/dom.js";
import { word } from "../shared/i18n.js";
import { addressOf } from "./view-context.js";

const TITLE = document.title;

export class Bar {
  /** `views`: those in the menu; the others are reached from them. */
  constructor(views, { operator, logOut, showKeys }) {
    this.count = make("span", { class: "count", hidden: true });
    this.links = new Map(views.map((view) => [view.id, link(addressOf(view.id), word(view.title))]));
    this.links.get("queue")?.append(this.count);
    this.live = make("span", { class: "live", role: "status" });
    const places = [...this.links.values()].map((place) => make("li", {}, place));
    this.nav = make("nav", { "aria-label": word("views") }, make("ul", {}, places));
    this.current = this.links.values().next().value;
    const keys = make("button", { type: "button", class: "plain keys-button", "aria-label": word("keys_title"), onclick: showKeys }, make("kbd", { "aria-hidden": "true" }, "?"));
    this.element = make(
      "div",
      { class: "desk-bar" },
      this.nav,
      make("div", { class: "who" }, this.live, keys, make("span", { class: "operator" }, operator), button(word("log_out"), logOut, "plain")),
    );
  }

  /** Which view is shown; `menu`: the one of the menu that it belongs to. */
  mark(viewId) {
    this.links.forEach((place, id) => {
      if (id === viewId) {
        place.setAttribute("aria-current", "page");
        this.current = place;
      } else {
        place.removeAttribute("aria-current");
      }
    });
    this.showCurrent();
  }

  /** On a phone there is no room for all places: the one where one is stands in the middle. The page itself stays. */
  showCurrent() {
    const [room, place] = [this.nav.getBoundingClientRect(), this.current.getBoundingClientRect()];
    this.nav.scrollLeft += place.left - room.left - (room.width - place.width) / 2;
  }

  /** How many wait for a review. */
  showCount(count) {
    document.title = count ? `(${count}) ${TITLE}` : TITLE;
    this.count.hidden = count === 0;
    this.count.textContent = String(count);
    this.showCurrent();
  }

  showLive({ is, refusal }) {
    this.live.dataset.is = is;
    const why = refusal?.code === "too_many_streams" || refusal?.code === "forbidden" ? refusal.message : "";
    this.live.textContent = is === "live" ? word("live") : why || word("not_live");
    this.live.title = is === "live" ? word("live_about") : word("not_live_about");
  }
}
