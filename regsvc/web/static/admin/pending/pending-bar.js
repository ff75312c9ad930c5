// The decisions that wait, at the foot of the page whatever else it shows: what, how long still, and a way back.

import { button, fillWith, make } from "../../shared/dom.js";
import { word } from "../../shared/i18n.js";
import { listNames, nameOfStatus, whatIsDecided } from "../phrases.js";

export class Tray {
  /** `pending`: what it shows; call `draw()` whenever something changed there, or a second has passed. */
  constructor(pending) {
    this.pending = pending;
    this.rows = new Map(); // by entry, so that a button one is about to press stays where it is
    this.count = make("h2", {});
    this.list = make("ul", {});
    this.said = make("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.all = button(word("send_now"), () => pending.flush(), "plain");
    const head = make("div", { class: "head" }, this.count, this.all);
    this.element = make("section", { class: "tray", "aria-label": word("tray"), hidden: true }, head, this.list);
  }

  /** For people who do not see it; the seconds are not counted out to them. */
  say(text) {
    this.said.textContent = text;
  }

  draw() {
    const { entries } = this.pending;
    const unsent = entries.filter(({ state }) => state !== "refused");
    this.element.hidden = entries.length === 0;
    this.count.textContent = unsent.length ? word("tray_count", { count: unsent.length }) : word("tray_refused");
    this.all.hidden = !entries.some(({ state }) => state === "waiting" || state === "unsent");
    this.rows.forEach((row, entry) => !entries.includes(entry) && this.drop(entry, row));
    entries.filter((entry) => !this.rows.has(entry)).forEach((entry) => {
      const row = new Row(this.pending, entry);
      this.rows.set(entry, row);
      this.list.prepend(row.element);
    });
    this.rows.forEach((row) => row.draw());
  }

  drop(entry, row) {
    this.rows.delete(entry);
    row.element.remove();
  }
}

/** A status that does not fit any more is somebody else's doing. */
function whyNot({ code, status, message }) {
  return code === "wrong_status" ? word("somebody_faster", { status: nameOfStatus(status) }) : message;
}

class Row {
  constructor(pending, entry) {
    this.pending = pending;
    this.entry = entry;
    this.shown = null;
    this.left = make("span", { class: "left" });
    this.element = make("li", {});
  }

  draw() {
    const { entry } = this;
    const shown = [entry.state, entry.usernames.length, entry.message].join();
    this.left.textContent = word("seconds", { seconds: entry.secondsLeft });
    if (shown !== this.shown) {
      this.shown = shown;
      this.element.dataset.state = entry.state;
      fillWith(this.element, this[entry.state]());
    }
  }

  waiting() {
    return [this.what(), this.left, this.undo()];
  }

  sending() {
    return [this.what(), make("span", { class: "left" }, word("is_sent"))];
  }

  unsent() {
    const again = button(word("try_again"), () => this.pending.send([this.entry]), "plain");
    return [this.what(make("span", { class: "why" }, word("not_sent", { why: this.entry.message }))), again, this.undo()];
  }

  refused() {
    const { entry } = this;
    const [first, ...others] = entry.refusals;
    const what = make("b", {}, word("was_refused", { what: whatIsDecided(entry) }));
    const lines = entry.refusals.map((refusal) => make("li", {}, make("b", {}, refusal.username), ` ${whyNot(refusal)}`));
    const why = others.length ? make("ul", {}, lines) : make("span", { class: "why" }, whyNot(first));
    return [make("div", { class: "what" }, what, why), button(word("understood"), () => this.pending.dismiss(entry), "plain")];
  }

  what(...more) {
    const { entry } = this;
    const silent = entry.silent && word("silently");
    const reason = [entry.reason, silent].filter(Boolean).join(" · ");
    return make("div", { class: "what" }, make("b", {}, whatIsDecided(entry)), reason && make("span", { class: "reason" }, reason), more);
  }

  undo() {
    const label = `${word("undo")}: ${word(`will_${this.entry.decision}`, { names: listNames(this.entry.usernames) })}`;
    return make("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => this.pending.undo(this.entry) }, word("undo"));
  }
}
