// A change that an operator makes at once, other than a decision.

import { asRefusal } from "../shared/api.js";
import { notice } from "../shared/notice.js";
import { labelFor } from "./phrases.js";

/**
 * Send a change, show what it changed with `reload`, and say that it was made, or why not. Returns whether it was made.
 *
 * @param {() => Promise<{ message?: string } | null>} change null: it was cancelled
 * @param {() => unknown} reload
 */
export async function sendChange(change, reload) {
  try {
    const reply = await change();
    if (reply !== null) {
      await reload();
      notice.announce(reply.message ?? "", "good");
    }
    return reply !== null;
  } catch (error) {
    notice.showRefusal(asRefusal(error));
    return false;
  }
}

/**
 * Say what a reply says, with its warnings in words.
 *
 * @param {{ message?: string, warnings?: string[] }} reply
 */
export function announceReply({ message = "", warnings = [] }) {
  const lines = [message, ...warnings.map((code) => labelFor("warning", code))];
  notice.announce(lines.join("\n"), warnings.length ? "bad" : "good");
}
