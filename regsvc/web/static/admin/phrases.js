// How operators are told of names, of times, and of what was decided.

import { hasWord, language, word } from "../shared/i18n.js";

const NAMED = 3; // of more people than this the first ones are named

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];
const relative = new Intl.RelativeTimeFormat(language, { numeric: "always", style: "short" });

/** "3 hr. ago", from epoch milliseconds. */
export function ago(milliseconds) {
  const passed = Date.now() - milliseconds;
  const unit = UNITS.find(([, length]) => passed >= length);
  return unit === undefined ? word("just_now") : relative.format(-Math.floor(passed / unit[1]), unit[0]);
}

/** "Alice, Bob and 12 more". */
export function listNames(usernames) {
  if (usernames.length <= NAMED) {
    return usernames.join(word("between_names"));
  }
  const first = usernames.slice(0, NAMED - 1).join(word("between_names"));
  return word("names_and_more", { names: first, count: usernames.length - NAMED + 1 });
}

/** "Alice" or "12 people". */
export function countNames(usernames) {
  return usernames.length === 1 ? usernames[0] : word("people", { count: usernames.length });
}

/** "Approved"; also of who is deleted. */
export function nameOfStatus(status) {
  return hasWord(`status_${status}`) ? word(`status_${status}`) : status;
}

/** "Approve Alice": what is about to be done. `decision`: "approve", "reject", "ban", "unban" or "delete". */
export function whatIsDecided({ decision, usernames }) {
  return word(`will_${decision}`, { names: listNames(usernames) });
}
