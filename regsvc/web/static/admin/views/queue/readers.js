// Who else of the team has the open applicant open: told every few seconds, and forgotten by itself.

import { asRefusal } from "../../../shared/api.js";
import { make, setText } from "../../../shared/dom.js";
import { t } from "../../../shared/i18n.js";

const EVERY = 10_000; // milliseconds; half a minute after the last time it is forgotten
const SETTLE = 400; // milliseconds; those passed by with j and k are not read

export class Readers {
  /** @param {import("../../view-context.js").ViewContext} context */
  constructor(context) {
    this.context = context;
    this.element = make("p", { class: "readers quiet-text", role: "status" });
    this.username = "";
    this.timer = 0;
    context.onLeave(() => this.follow(""));
  }

  /** @param {string} username of the user who is open; "" for nobody */
  follow(username) {
    if (username === this.username) {
      return;
    }
    this.username = username;
    this.element.textContent = "";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.tell(), username ? SETTLE : 0);
  }

  /** Tell who is open here. If that fails, nobody is shown, and the next time tries again. */
  async tell() {
    const { username } = this;
    if (!this.context.api.session?.current) {
      return; // logged out: it is forgotten by itself
    }
    /** @type {string[]} */
    let readers = [];
    try {
      ({ readers } = await this.context.api.post("admin/user/reading", { username }));
    } catch (error) {
      asRefusal(error);
    }
    if (username !== this.username || !username) {
      return;
    }
    const text = readers.length ? t("readers", { names: readers.join(", ") }) : "";
    setText(this.element, text);
    this.timer = setTimeout(() => this.tell(), EVERY);
  }
}
