// The review queue: who waits, oldest first. Two keys empty it: one approves, one rejects, and the next one is there.

import { Refusal } from "../../shared/api.js";
import { button, fillWith, make } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { word } from "../../shared/i18n.js";
import { actionsFor, detailsOf, furtherFor, summaryOf } from "./queue/applicant.js";
import { PeopleList } from "./queue/applicant-list.js";
import { People } from "./queue/applicants.js";
import { nameOfStatus } from "../phrases.js";

const LEFT_BEFORE_MORE = 30; // people in the list, when the next page is asked for
const GATHERING = 300; // milliseconds; registrations that come together are one question
const MINUTE = 60_000; // milliseconds
const AGAIN = 5; // seconds, after which is tried again what could not be asked for

export const queueView = {
  id: "queue",
  title: "view_queue",

  async draw(office) {
    const queue = new Queue(office);
    await queue.begin();
    return queue.element;
  },
};

class Queue {
  constructor(office) {
    this.office = office;
    this.people = new People(office.api);
    this.current = null;
    this.chosen = new Set();
    this.timer = null;
    this.told = ""; // why the list could not be asked for
    this.arrived = new Set(); // names of who has registered and is not in the list yet
    this.list = new PeopleList({ open: (person) => this.open(person, { isTouched: true }), choose: (person, isChosen) => this.choose(person, isChosen) });
    this.makeElements();
    this.register();
  }

  makeElements() {
    this.count = make("p", { class: "quiet-text", "aria-live": "polite" });
    this.bulk = make("div", { class: "bulk", hidden: true });
    this.card = make("article", { class: "applicant" });
    this.empty = make("p", { class: "all-done" }, word("queue_empty"));
    const turn = (name, places) => make("button", { type: "button", class: "quiet", "aria-label": word(name), onclick: () => this.move(places) }, places < 0 ? "‹" : "›");
    this.toList = button("", () => this.turnTo("list"), "quiet");
    this.pager = make("div", { class: "card-pager" }, turn("key_previous", -1), this.toList, turn("key_next", 1));
    const end = make("div", { class: "list-end" });
    const seen = ([{ isIntersecting }]) => isIntersecting && this.loadMore();
    new IntersectionObserver(seen, { rootMargin: "400px" }).observe(end); // the list's own end may lie below the window's
    const side = make("div", { class: "side" }, this.bulk, this.list.element, end);
    this.split = make("div", { class: "split", "data-shows": "card" }, side, make("div", { class: "front" }, this.pager, this.card));
    this.element = make("div", { class: "queue" }, this.count, this.empty, this.split);
  }

  register() {
    const { office } = this;
    office.onEvent(["user_registered", "user_approved", "user_rejected", "user_banned", "user_unbanned", "user_deleted"], (data, name) => this.hear(data, name));
    office.onEvent(["missed"], () => this.beginAnew());
    office.onDecision((what, entry, facts) => this.follow(what, entry, facts));
    office.keys({
      a: { word: "key_approve", action: () => this.act("approve") },
      r: { word: "key_reject", action: () => this.act("reject") },
      A: { word: "key_approve_words", action: () => this.act("approve_words") },
      "j ArrowDown": { word: "key_next", action: () => this.move(1), repeats: true },
      "k ArrowUp": { word: "key_previous", action: () => this.move(-1), repeats: true },
      x: { word: "key_choose", action: () => this.current && this.choose(this.current, !this.chosen.has(this.current)) },
      X: { word: "key_choose_all", action: () => this.chooseAll() },
      Escape: { word: "key_choose_none", action: () => this.chooseNone() },
      o: { word: "key_open", action: () => this.current && office.go("user", { name: this.current.username }) },
    });
    const clock = setInterval(() => this.list.tick(), MINUTE);
    office.onLeave(() => {
      clearInterval(clock);
      clearTimeout(this.timer);
    });
  }

  /** Also when it has to begin anew; whom one looks at stays. Throws a Refusal. */
  async begin() {
    const name = this.current?.username ?? null;
    const chosen = [...this.chosen].map(({ username }) => username);
    await this.people.load();
    this.chosen = new Set(chosen.map((username) => this.people.find(username)).filter(Boolean));
    const again = name === null ? null : this.people.find(name);
    this.draw();
    this.open(again ?? this.shown[0] ?? null, {});
    await this.fill();
  }

  /** Nobody has asked for it, so nobody is led away; what cannot be asked for is tried again. */
  async beginAnew() {
    clearTimeout(this.timer);
    try {
      await this.begin();
      notice.forget(this.told);
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
      if (!refusal.isLoggedOut && !this.office.isOver) {
        this.told = refusal.message;
        notice.say(this.told, "bad");
        this.timer = setTimeout(() => this.beginAnew(), (refusal.retryAfter ?? AGAIN) * 1000);
      }
    }
  }

  /** Those about whom nothing is decided yet. */
  get shown() {
    return this.people.list.filter(({ username }) => this.office.waiting(username) === null);
  }

  draw() {
    const { shown, chosen } = this;
    const decided = this.people.list.length - shown.length;
    const left = Math.max(shown.length, this.people.total - decided);
    this.count.textContent = left ? word("queue_count", { count: left }) : "";
    this.empty.hidden = left > 0;
    this.split.hidden = shown.length === 0;
    this.list.draw(shown, this.current, chosen);
    const place = shown.indexOf(this.current) + 1;
    this.toList.textContent = word("queue_place", { place, count: left });
    this.drawBulk();
  }

  drawBulk() {
    const count = this.chosen.size;
    this.bulk.hidden = count === 0;
    if (count) {
      const none = button(word("choose_none"), () => this.chooseNone(), "plain");
      const all = button(word("choose_all"), () => this.chooseAll(), "plain");
      fillWith(this.bulk, make("p", { role: "status" }, word("chosen", { count })), make("div", { class: "keeping" }, all, none), actionsFor((name) => this.act(name)));
    }
  }

  // --- Looking ---

  /** Show somebody; null: nobody is left. `isTouched`: somebody asked for him, so he is gone to. */
  open(person, { isTouched = false }) {
    this.current = person;
    if (isTouched) {
      this.split.dataset.shows = "card";
    }
    this.draw();
    if (person === null) {
      fillWith(this.card);
      return;
    }
    const title = make("h3", { tabindex: "-1" }, person.username);
    const details = make("div", { class: "details" }, make("p", { class: "quiet-text" }, word("loading")));
    const act = (name) => this.act(name, [person]);
    fillWith(this.card, make("header", {}, title, furtherFor(this.office, person.username, act)), actionsFor(act), summaryOf(person), details);
    this.showDetails(person, details);
    if (isTouched && !this.list.focus(person)) {
      title.focus();
    }
  }

  async showDetails(person, place) {
    try {
      const user = await this.people.lookAt(person.username);
      fillWith(place, detailsOf(user));
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
      if (refusal.code === "user_not_found") {
        this.drop(person.username, word("gone_meanwhile", { name: person.username }));
        return;
      }
      const again = button(word("try_again"), () => this.showDetails(person, place), "quiet");
      fillWith(place, make("p", { class: "notice", "data-kind": "bad" }, refusal.message), again);
    }
    const next = this.shown[this.shown.indexOf(person) + 1];
    if (next !== undefined && person === this.current) {
      await this.people.lookAhead(next.username);
    }
  }

  turnTo(what) {
    this.split.dataset.shows = what;
    this.list.focus(this.current);
  }

  move(places) {
    const { shown } = this;
    const place = Math.min(Math.max(shown.indexOf(this.current) + places, 0), shown.length - 1);
    if (shown.length && shown[place] !== this.current) {
      this.open(shown[place], { isTouched: true });
      this.fill();
    }
  }

  /** The next page, when not many are left of this one. */
  async fill() {
    const { shown } = this;
    if (shown.length - shown.indexOf(this.current) < LEFT_BEFORE_MORE) {
      await this.loadMore();
    }
  }

  async loadMore() {
    try {
      if (await this.people.loadMore()) {
        this.draw();
        this.openFirst();
      }
    } catch (refusal) {
      notice.refuse(refusal);
    }
  }

  /** Somebody is there again. */
  openFirst() {
    if (this.current === null) {
      this.open(this.shown[0] ?? null, {});
    }
  }

  // --- Choosing many ---

  choose(person, isChosen) {
    this.chosen[isChosen ? "add" : "delete"](person);
    this.draw();
  }

  chooseAll() {
    this.chosen = new Set(this.shown);
    this.draw();
  }

  chooseNone() {
    this.chosen.clear();
    this.draw();
  }

  // --- Deciding ---

  get inHand() {
    return this.chosen.size ? this.shown.filter((person) => this.chosen.has(person)) : [this.current].filter(Boolean);
  }

  /** `people`: whom it is about; else those who are chosen, or whom one looks at. */
  async act(name, people = this.inHand) {
    const usernames = people.map(({ username }) => username);
    if (usernames.length === 0) {
      return;
    }
    if (name === "approve") {
      this.office.decide({ decision: "approve", usernames });
    } else {
      await this.office.askAndDecide(name === "reject" ? "reject" : "approve", usernames, { key: name === "reject" ? "r" : "a" });
    }
  }

  follow(what, entry, facts) {
    if (what === "added") {
      this.leave(entry.usernames);
    } else if (what === "sent") {
      facts.results.forEach(({ username, status }) => status !== "pending" && this.people.remove(username));
      this.draw();
    } else if (what === "refused") {
      entry.refusals.forEach(({ username, status, code }) => (status ?? "pending") === "pending" && code !== "user_not_found" || this.people.remove(username));
      this.comeBack(entry);
    } else if (what === "undone") {
      this.comeBack(entry);
    }
  }

  /** They are decided about: who came after whom one has looked at is next. */
  leave(usernames) {
    const gone = new Set(usernames.map((name) => name.toLowerCase()));
    const isGone = (person) => gone.has(person.username.toLowerCase());
    this.chosen = new Set([...this.chosen].filter((person) => !isGone(person)));
    if (this.current === null || isGone(this.current)) {
      this.openNext();
    }
    this.draw();
    this.fill();
  }

  openNext() {
    const behind = new Set(this.people.list.slice(this.people.list.indexOf(this.current) + 1));
    const { shown } = this;
    const next = shown.find((person) => behind.has(person)) ?? shown.at(-1) ?? null;
    this.open(next, { isTouched: next !== null });
  }

  /** Nothing was decided about them after all. */
  comeBack({ usernames }) {
    const first = usernames.map((username) => this.people.find(username)).find((person) => person && this.shown.includes(person));
    if (first) {
      this.open(first, { isTouched: true });
    } else {
      this.draw();
    }
  }

  /** Somebody is not in the list any more; `text` says why. */
  drop(username, text) {
    const person = this.people.find(username);
    if (person === null) {
      return;
    }
    const isCurrent = person === this.current;
    if (isCurrent) {
      this.openNextBut(person);
    }
    this.people.remove(username);
    this.chosen.delete(person);
    this.draw();
    notice.say(text);
  }

  openNextBut(person) {
    const { shown } = this;
    const place = shown.indexOf(person);
    this.open(shown[place + 1] ?? shown[place - 1] ?? null, {});
  }

  // --- Events ---

  hear({ username, status, by }, name) {
    const entry = this.office.waiting(username);
    if (entry?.state === "sending") {
      return; // our own, and its answer is on its way
    }
    const isHere = this.people.find(username) !== null;
    if (status !== "pending") {
      this.drop(username, word("decided_elsewhere", { operator: by, name: username, status: nameOfStatus(status) }));
    } else if (name === "user_registered" && !isHere) {
      this.arrive(username);
    } else {
      this.beginAnew(); // back where he was in the queue, or registered once more
    }
  }

  arrive(username) {
    if (this.arrived.size === 0) {
      setTimeout(() => this.takeArrived().catch((refusal) => notice.refuse(refusal)), GATHERING);
    }
    this.arrived.add(username);
  }

  async takeArrived() {
    const names = [...this.arrived];
    this.arrived.clear();
    if (this.office.isOver) {
      return;
    }
    await this.people.loadNew(names);
    this.draw();
    this.openFirst();
  }
}
