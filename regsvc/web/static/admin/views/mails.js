// The mails of the last weeks: to whom, what became of each, and another try.

import { Refusal } from "../../shared/api.js";
import { button, make } from "../../shared/dom.js";
import { notice } from "../../shared/notice.js";
import { word } from "../../shared/i18n.js";
import { named, userLink, when } from "../badges.js";
import { choiceBar, Listing } from "../table/listing.js";
import { fateOf, whatMail } from "../mail-badges.js";
import { Table } from "../table/table.js";

const SIZE = 50;
const STATES = ["failed", "waiting", "sent", "dropped"];
const AGAIN = 5000; // milliseconds between two looks while a mail is on its way

export const mailsView = {
  id: "mails",
  title: "view_mails",

  async draw(office, query) {
    const table = new Table({
      label: "view_mails",
      keyOf: ({ id }) => id,
      nameOf: (mail) => `${whatMail(mail)}, ${mail.to}`,
      columns: columnsFor(office, (mail) => resend([mail])),
    });
    const listing = new Listing(office, query, {
      fields: [
        { name: "to", label: "mail_to", type: "search" },
        { name: "state", label: "status", type: "select", options: [{ value: "", text: word("any") }, ...STATES.map((value) => ({ value, text: named("fate", value) }))] },
      ],
      table,
      ask: (values, { page }) => ask(office.api, values, page),
      counted: "mails_number",
      none: "mails_none",
      beside: choiceBar(table, [button(word("resend"), () => resend(table.chosen), "quiet")]),
    });
    const resend = (mails) => sendAgain(office.api, mails, listing);
    office.keys({ s: { word: "key_resend", action: () => resend(table.meant) } });
    office.onEvent(["missed"], () => listing.refreshSoon());
    const clock = setInterval(() => table.rows.some(isOnItsWay) && listing.refreshSoon(), AGAIN);
    office.onLeave(() => clearInterval(clock));
    return listing.draw();
  },
};

async function ask(api, values, page) {
  const { mails, pagination } = await api.get("admin/mails", { ...values, page, size: SIZE });
  return { rows: mails, pagination };
}

function isOnItsWay({ state }) {
  return state === "waiting";
}

/** What cannot be sent again is told, each with its reason. */
async function sendAgain(api, mails, listing) {
  const ids = mails.filter((mail) => !isOnItsWay(mail)).map(({ id }) => id);
  if (ids.length === 0) {
    notice.say(word(mails.length ? "mails_waiting" : "choose_first"));
    return;
  }
  try {
    const { message, results = [] } = await api.post("admin/mails/resend", ids.length === 1 ? { id: ids[0] } : { ids });
    const refused = results.filter(({ success }) => !success);
    const sent = results.length - refused.length;
    const told = message ?? [sent > 0 && word("resent", { count: sent }), ...new Set(refused.map((result) => result.message))].filter(Boolean).join("\n");
    notice.say(told, refused.length ? "bad" : "good");
    listing.table.chooseAll(false);
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) {
      throw refusal;
    }
    notice.refuse(refusal);
  }
  listing.refreshSoon();
}

function columnsFor(office, resend) {
  return [
    { title: "mail", kind: "main", of: (mail) => [make("span", {}, whatMail(mail)), make("span", { class: "beside" }, mail.to)] },
    { title: "about", of: ({ username }) => username !== null && userLink(office, username) },
    { title: "status", of: (mail) => [fateOf(mail), mail.lastError !== null && make("span", { class: "words" }, mail.lastError), attemptsOf(mail)] },
    { title: "moment", kind: "second", of: ({ createdAt }) => when(createdAt) },
    { title: "acts", kind: "bare", of: (mail) => mail.state === "failed" && make("div", { class: "acts" }, resendButton(mail, resend)) },
  ];
}

function attemptsOf({ state, attempts, nextAttemptAt }) {
  const tries = attempts > 1 ? word("attempts", { count: attempts }) : "";
  const next = state === "waiting" && attempts > 0 && nextAttemptAt !== null ? [word("next_attempt"), " ", when(nextAttemptAt)] : [];
  const told = [tries, tries && next.length ? " · " : "", ...next].filter(Boolean);
  return told.length > 0 && make("span", { class: "beside" }, told);
}

function resendButton(mail, resend) {
  const label = `${word("resend")}: ${whatMail(mail)}, ${mail.to}`;
  return make("button", { type: "button", class: "plain", "aria-label": label, onclick: () => resend(mail) }, word("resend"));
}
