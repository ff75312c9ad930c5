// The sync between our users and AuthMe's players: what a run would do, a run, what it said, and the runs before.

import { Refusal } from "../../shared/api.js";
import { button, fillWith, link, make } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { language, word } from "../../shared/i18n.js";
import { nameOfAction } from "../audit-entries.js";
import { when } from "../badges.js";
import { reportOf, tellCounts } from "./sync/report.js";
import { Table } from "../table/table.js";

const LONGEST_RUN = 15 * 60_000; // milliseconds; the first one over a million players takes minutes
const RUNS = 20;
const SOON = 700; // milliseconds
const DIFFERING = ["conflict", "returned", "absent"];

export const syncView = {
  id: "sync",
  title: "view_sync",

  async draw(office) {
    if (!office.config.authme.enabled) {
      return make("p", {}, word("sync_is_off"));
    }
    const sync = new SyncPage(office);
    await sync.loadRuns();
    return sync.elements;
  },
};

class SyncPage {
  constructor(office) {
    this.office = office;
    this.isBusy = false;
    this.timer = null;
    this.runNow = button(word("sync_run"), () => this.ask(false), "");
    this.plan = button(word("sync_plan"), () => this.ask(true), "quiet");
    this.result = make("div", { class: "report", "aria-live": "polite" });
    this.none = make("p", { class: "quiet-text" }, word("sync_no_runs"));
    this.table = new Table({ label: "sync_runs", keyOf: ({ id }) => id, columns: columns() });
    this.elements = [
      make("p", { class: "quiet-text" }, word("sync_about")),
      make("div", { class: "acts" }, this.runNow, this.plan),
      this.result,
      make("h3", {}, word("sync_differing")),
      make("p", { class: "links" }, DIFFERING.map((plugin) => link(office.address("users", { plugin }), word(`player_${plugin}`)))),
      make("h3", {}, word("sync_runs")),
      this.none,
      this.table.element,
    ];
    office.keys({ s: { word: "sync_run", action: () => this.ask(false) }, t: { word: "sync_plan", action: () => this.ask(true) }, ...this.table.keysOfRows });
    office.onEvent(["sync_finished", "missed"], () => this.refreshSoon());
    office.onLeave(() => clearTimeout(this.timer));
  }

  /** The runs that changed something, or that were braked; newest first. Throws a Refusal. */
  async loadRuns() {
    const asked = ["sync.run", "sync.braked"].map((action) => this.office.api.get("admin/audits", { action, size: RUNS }));
    const runs = (await Promise.all(asked)).flatMap(({ audits }) => audits);
    runs.sort((one, other) => other.id - one.id);
    this.none.hidden = runs.length > 0;
    this.table.draw(runs.slice(0, RUNS));
  }

  refreshSoon() {
    this.timer ??= setTimeout(async () => {
      this.timer = null;
      try {
        await this.loadRuns();
      } catch (refusal) {
        if (!(refusal instanceof Refusal)) {
          throw refusal;
        }
        if (!refusal.isLoggedOut) {
          notice.say(refusal.message, "bad"); // nobody has asked for it, so nobody is led away
        }
      }
    }, SOON);
  }

  async ask(isPlan) {
    if (this.isBusy) {
      return;
    }
    this.busy(true);
    fillWith(this.result, make("p", { class: "quiet-text" }, word(isPlan ? "sync_plans" : "sync_runs_now")));
    try {
      const { message, report } = await post(this.office.api, isPlan);
      fillWith(this.result, reportOf(this.office, { message, report, isPlan }));
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) {
        throw refusal;
      }
      fillWith(this.result);
      notice.refuse(refusal);
    } finally {
      this.busy(false);
    }
  }

  busy(isBusy) {
    this.isBusy = isBusy;
    [this.runNow, this.plan].forEach((button) => button.setAttribute("aria-disabled", isBusy));
  }
}

/** A run may take longer than anything else that is asked for. */
function post(api, plan) {
  return api.ask("api/admin/sync", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ plan, language }),
    signal: AbortSignal.timeout(LONGEST_RUN),
  });
}

function columns() {
  return [
    { title: "moment", kind: "main", of: ({ timestamp }) => when(timestamp) },
    { title: "action", of: ({ action }) => nameOfAction(action) },
    { title: "detail", kind: "wide", of: ({ detail }) => tellCounts(detail ?? {}) },
  ];
}
