// What became of a POST request that got no answer, perhaps before a reload: pages ask before they send anything else.

import { ATTEMPT, asRefusal, KEY_HEADER } from "./api.js";

const NOTHING = 204; // the status where nothing was carried out

/**
 * Return the answer to an unanswered attempt, or null if there is none or it was not carried out. Sends nothing anew.
 * Throws a Refusal.
 *
 * @template {keyof PostRoutes} Path
 * @param {import("./api.js").Api} api
 * @param {Path} path
 * @returns {Promise<PostReply<Path> | null>}
 */
export async function recallAnswer(api, path) {
  const key = sessionStorage.getItem(ATTEMPT + path);
  if (key === null) {
    return null;
  }
  try {
    const headers = { [KEY_HEADER]: key, "X-Replay-Only": "1" };
    const reply = await api.request(`api/${path}`, { method: "POST", headers });
    sessionStorage.removeItem(ATTEMPT + path);
    return reply;
  } catch (error) {
    if (asRefusal(error).status === NOTHING) {
      return null;
    }
    throw error;
  }
}
