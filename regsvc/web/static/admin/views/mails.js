// The mails of the last weeks: their recipients and states, with a button to send them again.

import { asRefusal } from "../../shared/api.js";
import { button, make } from "../../shared/dom.js";
import { t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { agoElement, badge, timeElement, userLink } from "../badges.js";
import { labelFor } from "../phrases.js";
import { Listing } from "../table/listing.js";
import { selectionBar } from "../table/selection-bar.js";
import { Table } from "../table/table.js";

const PAGE_SIZE = 50;
const STATES = ["failed", "waiting", "sent", "dropped"];
const POLL_INTERVAL = 5000; // milliseconds, while a mail is on its way

/** @type {LaterView} */
export const mailsView = {
  async render(context, query) {
    /** @type {Table<Mail>} */
    const table = new Table({
      label: "view_mails",
      keyOf: ({ id }) => id,
      rowLabel: (mail) => `${mailName(mail)}, ${mail.to}`,
      columns: columnsFor(context, (mail) => resend([mail])),
    });
    const states = STATES.map((value) => ({ value, text: labelFor("fate", value) }));
    /** @type {Listing<Mail>} */
    const listing = new Listing(context, query, {
      fields: [
        { name: "to", label: "mail_to", type: "search" },
        { name: "state", label: "status", type: "select", options: [{ value: "", text: t("any") }, ...states] },
      ],
      table,
      load: (values, { page }) => load(context.api, values, page),
      countText: "mails_number",
      emptyText: "mails_none",
      actions: selectionBar(context, table, [button(t("resend"), () => resend(table.selected), "quiet")]),
    });
    const resend = (/** @type {Mail[]} */ mails) => resendMails(context.api, mails, listing);
    context.addKeys({ s: { label: "key_resend", action: () => resend(table.targets) } });
    context.onEvent(["missed"], () => listing.refresh.soon());
    const timer = setInterval(() => table.rows.some(isWaiting) && listing.refresh.soon(), POLL_INTERVAL);
    context.onLeave(() => clearInterval(timer));
    return listing.render();
  },
};

/**
 * @param {import("../../shared/api.js").Api} api
 * @param {Query} values
 * @param {Query[string]} page
 */
async function load(api, values, page) {
  const { mails, pagination } = await api.get("admin/mails", { ...values, page, size: PAGE_SIZE });
  return { rows: mails, pagination };
}

/** @param {Mail} mail */
function isWaiting({ state }) {
  return state === "waiting";
}

/**
 * Send mails again, and report those that cannot be.
 *
 * @param {import("../../shared/api.js").Api} api
 * @param {Mail[]} mails
 * @param {Listing<Mail>} listing
 */
async function resendMails(api, mails, listing) {
  const ids = mails.filter((mail) => !isWaiting(mail)).map(({ id }) => id);
  if (ids.length === 0) {
    notice.show(t(mails.length ? "mails_waiting" : "choose_first"));
    return;
  }
  try {
    const reply = await api.post("admin/mails/resend", ids.length === 1 ? { id: ids[0] } : { ids });
    const results = "results" in reply ? reply.results : [];
    const refused = results.filter(({ success }) => !success);
    const sent = results.length - refused.length;
    const lines = [sent > 0 && t("resent", { count: sent }), ...new Set(refused.map(({ message }) => message))];
    notice.show(reply.message ?? lines.filter(Boolean).join("\n"), refused.length ? "bad" : "good");
    listing.table.selectAll(false);
  } catch (error) {
    notice.showRefusal(asRefusal(error));
  }
  listing.refresh.soon();
}

/**
 * @param {import("../view-context.js").ViewContext} context
 * @param {(mail: Mail) => unknown} resend
 * @returns {import("../table/table.js").Column<Mail>[]}
 */
function columnsFor(context, resend) {
  return [
    {
      title: "mail",
      kind: "main",
      render: (mail) => [make("span", {}, mailName(mail)), make("span", { class: "secondary" }, mail.to)],
    },
    { title: "about", render: ({ username }) => username !== null && userLink(context, username) },
    {
      title: "status",
      render: (mail) => [
        mailBadge(mail),
        mail.lastError !== null && make("span", { class: "user-text" }, mail.lastError),
        renderAttempts(mail),
      ],
    },
    { title: "moment", kind: "second", isNumber: true, render: ({ createdAt }) => agoElement(createdAt) },
    {
      title: "acts",
      kind: "bare",
      render: (mail) => mail.state === "failed" && make("div", { class: "row-actions" }, resendButton(mail, resend)),
    },
  ];
}

/** @param {Mail} mail */
function renderAttempts({ state, attempts, nextAttemptAt }) {
  const tries = attempts > 1 ? t("attempts", { count: attempts }) : "";
  const hasNext = state === "waiting" && attempts > 0 && nextAttemptAt !== null;
  const next = hasNext ? [t("next_attempt"), " ", timeElement(nextAttemptAt)] : [];
  const parts = [tries, tries && next.length ? " · " : "", ...next].filter(Boolean);
  return parts.length > 0 && make("span", { class: "secondary" }, parts);
}

/**
 * @param {Mail} mail
 * @param {(mail: Mail) => unknown} resend
 */
function resendButton(mail, resend) {
  const label = `${t("resend")}: ${mailName(mail)}, ${mail.to}`;
  const onclick = () => resend(mail);
  return make("button", { type: "button", class: "plain", "aria-label": label, onclick }, t("resend"));
}

/** @type {Record<string, import("../badges.js").Kind>} */
const MAIL_KINDS = { waiting: "wait", sent: "good", failed: "bad" };

/** @param {{ state: string }} mail */
export function mailBadge({ state }) {
  return badge(labelFor("fate", state), MAIL_KINDS[state]);
}

/**
 * Return which mail it is, in words.
 *
 * @param {{ template: string }} mail
 */
export function mailName({ template }) {
  return labelFor("mail", template);
}
