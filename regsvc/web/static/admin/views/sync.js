// The sync between our users and AuthMe's players: a preview, a run with its report, and the runs before.

import { asRefusal } from "../../shared/api.js";
import { button, link, make, replaceContent } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { actionName, describeCounts } from "../audit-entries.js";
import { agoElement } from "../badges.js";
import { formatNumber } from "../phrases.js";
import { Refresh } from "../refresh.js";
import { Table } from "../table/table.js";
import { renderReport } from "./sync/report.js";

const LONGEST_RUN = 15 * 60_000; // milliseconds; the first one over a million players takes minutes
const MAX_RUNS = 20;
const DIFFERENCES = ["conflict", "returned", "absent"];
const LIST_DIFFERENCES = ["waiting", "removed", "conflict"];

/** @type {LaterView} */
export const syncView = {
  async render(context) {
    if (context.config.gates.length === 0) {
      return make("p", {}, t("sync_is_off"));
    }
    const sync = new SyncPage(context);
    await sync.load();
    return sync.elements;
  },
};

class SyncPage {
  /** @param {import("../view-context.js").ViewContext} context */
  constructor(context) {
    this.context = context;
    this.isBusy = false;
    this.refresh = new Refresh(context, () => this.load());
    this.runNow = button(t("sync_run"), () => this.run(false), "");
    this.preview = button(t("sync_plan"), () => this.run(true), "quiet");
    this.result = make("div", { class: "report" });
    this.none = make("p", { class: "quiet-text" }, t("sync_no_runs"));
    this.table = new Table({ label: "sync_runs", keyOf: ({ id }) => id, columns: columns() });
    const { gates } = context.config;
    const players = gates.includes("authme") ? DIFFERENCES : [];
    const listed = gates.includes("allowlist") ? LIST_DIFFERENCES : [];
    /** @type {Array<{ query: Query, label: string }>} */
    this.differences = [
      // of those without a player, only the approved should have one
      ...players.map((plugin) => ({
        query: plugin === "absent" ? { plugin, status: "approved" } : { plugin },
        label: t(`player_${plugin}`),
      })),
      ...listed.map((allowlist) => ({ query: { allowlist }, label: t(`listed_${allowlist}`) })),
    ];
    this.links = make("p", { class: "links" });
    this.elements = [
      make("p", { class: "quiet-text" }, t(gates.includes("authme") ? "sync_about" : "sync_about_list")),
      make("div", { class: "row-actions" }, this.runNow, this.preview),
      this.result,
      make("h3", {}, t("sync_differing")),
      this.links,
      make("h3", {}, t("sync_runs")),
      this.none,
      this.table.element,
    ];
    context.addKeys({
      s: { label: "sync_run", action: () => this.run(false) },
      t: { label: "sync_plan", action: () => this.run(true) },
      ...this.table.keyBindings,
    });
    context.onEvent(["sync_finished", "missed"], () => this.refresh.soon());
  }

  /** Throws a Refusal. */
  async load() {
    await Promise.all([this.loadRuns(), this.countDifferences()]);
  }

  /** Show how many players differ, and how; what nobody does is left out. Throws a Refusal. */
  async countDifferences() {
    const replies = await Promise.all(
      this.differences.map(({ query }) => this.context.api.get("admin/users", { ...query, size: 1 })),
    );
    const links = this.differences.flatMap(({ query, label }, index) => {
      const { totalCount } = replies[index].pagination;
      const count = totalCount === null ? t("very_many") : formatNumber(totalCount);
      return totalCount === 0 ? [] : [link(this.context.hashFor("users", query), `${label}: ${count}`)];
    });
    replaceContent(this.links, links.length > 0 ? links : t("sync_no_differences"));
  }

  /** Load the runs that changed something or were held back, newest first. Throws a Refusal. */
  async loadRuns() {
    const replies = await Promise.all(
      ["sync.run", "sync.braked", "allowlist.run"].map((action) =>
        this.context.api.get("admin/audits", { action, size: MAX_RUNS }),
      ),
    );
    const runs = replies.flatMap(({ audits }) => audits);
    runs.sort((one, other) => other.id - one.id);
    this.none.hidden = runs.length > 0;
    this.table.render(runs.slice(0, MAX_RUNS));
  }

  /** @param {boolean} isPreview */
  async run(isPreview) {
    if (this.isBusy) {
      return;
    }
    this.setBusy(true);
    const begun = t(isPreview ? "sync_plans" : "sync_runs_now");
    replaceContent(this.result, make("p", { class: "quiet-text" }, begun));
    notice.show(begun, "spoken");
    try {
      // a run may take longer than any other request
      const options = { signal: AbortSignal.timeout(LONGEST_RUN) };
      const { message = "", report } = await this.context.api.post("admin/sync", { plan: isPreview }, options);
      replaceContent(this.result, renderReport(this.context, { message, report, isPreview }));
      notice.show(message, "spoken"); // the rest is long
    } catch (error) {
      const refusal = asRefusal(error);
      replaceContent(this.result);
      notice.showRefusal(refusal);
    } finally {
      this.setBusy(false);
    }
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.isBusy = isBusy;
    this.runNow.setAttribute("aria-disabled", String(isBusy));
    this.preview.setAttribute("aria-disabled", String(isBusy));
  }
}

/** @returns {import("../table/table.js").Column<Audit>[]} */
function columns() {
  return [
    { title: "moment", kind: "main", render: ({ timestamp }) => agoElement(timestamp) },
    { title: "action", render: ({ action }) => actionName(action) },
    { title: "detail", kind: "wide", render: ({ detail }) => describeCounts(detail ?? {}) },
  ];
}
