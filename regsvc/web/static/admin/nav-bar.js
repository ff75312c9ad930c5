// The menu above every view, and in the page's header whether updates are live, and the signed-in operator.

import { button, link, make, setText } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { hashFor } from "./hash.js";

const TITLE = document.title;

export class NavBar {
  /**
   * @param {View[]} views those in the menu
   * @param {{ operator: string, logOut: () => unknown, showKeys: () => unknown }} options
   */
  constructor(views, { operator, logOut, showKeys }) {
    this.count = make("span", { class: "count", hidden: true });
    this.links = new Map(views.map((view) => [view.id, link(hashFor(view.id), t(view.title))]));
    this.links.get("queue")?.append(this.count);
    this.live = make("span", { class: "live", role: "status" });
    const items = [...this.links.values()].map((item) => make("li", {}, item));
    this.nav = make("nav", { "aria-label": t("views") }, make("ul", {}, items));
    /** @type {HTMLElement | null} */
    this.current = null;
    this.heading = "";
    this.waiting = 0;
    const keys = make(
      "button",
      { type: "button", class: "plain keys-button", "aria-label": t("keys_title"), onclick: showKeys },
      make("kbd", { "aria-hidden": "true" }, "?"),
    );
    const name = make("span", { class: "operator" }, operator);
    this.element = make("div", { class: "nav-bar" }, this.nav);
    this.signedIn = make("div", { class: "signed-in" }, this.live, keys, name, button(t("log_out"), logOut, "plain"));
    const bar = document.querySelector(".top-bar");
    bar?.insertBefore(this.signedIn, bar.querySelector("#language"));
  }

  /**
   * Mark the current view in the menu.
   *
   * @param {string} viewId
   */
  setCurrent(viewId) {
    this.links.forEach((item, id) => {
      if (id === viewId) {
        item.setAttribute("aria-current", "page");
        this.current = item;
      } else {
        item.removeAttribute("aria-current");
      }
    });
    this.scrollToCurrent();
  }

  /** Centre the current item: a phone has no room for all of them. The page itself does not scroll. */
  scrollToCurrent() {
    if (this.current !== null) {
      const [visible, item] = [this.nav.getBoundingClientRect(), this.current.getBoundingClientRect()];
      this.nav.scrollLeft += item.left - visible.left - (visible.width - item.width) / 2;
    }
  }

  /**
   * Name the view that is shown in the title of the window.
   *
   * @param {string} heading
   */
  setHeading(heading) {
    this.heading = heading;
    this.updateTitle();
  }

  updateTitle() {
    const title = [this.heading, TITLE].filter(Boolean).join(" – ");
    document.title = this.waiting ? `(${this.waiting}) ${title}` : title;
  }

  /** Give the window its first title again, and leave the header: the operator is logged out. */
  end() {
    this.signedIn.remove();
    document.title = TITLE;
  }

  /** @param {number} count of applicants who wait for a review */
  showCount(count) {
    this.waiting = count;
    this.updateTitle();
    this.count.hidden = count === 0;
    this.count.textContent = String(count);
    this.scrollToCurrent();
  }

  /** @param {{ is: string, error?: any }} state of the event stream */
  showLive({ is, error }) {
    this.live.dataset.is = is;
    const why = error?.code === "too_many_streams" || error?.code === "forbidden" ? error.message : "";
    setText(this.live, is === "live" ? t("live") : why || t("not_live"));
    this.live.title = is === "live" ? t("live_about") : t("not_live_about");
  }
}
