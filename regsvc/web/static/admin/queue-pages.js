// The pages of the review queue. The first is asked for while the script that shows it is on its way.

import { parseHash } from "./hash.js";

const FIRST_SIZE = 30; // a phone waits for it
const PAGE_SIZE = 100;

/** @typedef {Promise<GetReply<"admin/users">>} Reply */

/** @type {{ key: string, reply: Reply } | null} */
let asked = null;

/**
 * Ask for the first page, if the address is that of the queue.
 *
 * @param {import("../shared/api.js").Api} api
 */
export function askForQueue(api) {
  const { id, query } = parseHash(location.hash);
  const { name: _opened, ...filters } = query;
  asked = null;
  if (id === "" || id === "queue") {
    const reply = loadQueuePage(api, filters);
    reply.catch(() => {}); // the view that takes it reports it
    asked = { key: keyOf(filters), reply };
  }
}

/**
 * Load a page. Throws a Refusal.
 *
 * @param {import("../shared/api.js").Api} api
 * @param {Record<string, string>} filters "show" names one of its switches
 * @param {Query} place the first page, if it is empty
 * @returns {Reply}
 */
export function loadQueuePage(api, { show = "", ...filters }, place = {}) {
  const switched = show ? { [show]: true } : {};
  const size = "after" in place ? PAGE_SIZE : FIRST_SIZE;
  return api.get("admin/users", { status: "pending", size, ...filters, ...switched, ...place });
}

/**
 * Return the reply to what was asked for, once, or load the first page. Throws a Refusal.
 *
 * @param {import("../shared/api.js").Api} api
 * @param {Record<string, string>} filters
 */
export function firstQueuePage(api, filters) {
  const reply = asked?.key === keyOf(filters) ? asked.reply : loadQueuePage(api, filters);
  asked = null;
  return reply;
}

/** @param {Record<string, string>} filters */
function keyOf(filters) {
  return JSON.stringify(filters);
}
