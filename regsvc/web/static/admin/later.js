// What the first view does not need. First the rest of the inside, once that view is shown: it is tried again until it
// is loaded. Then the other views and the dialogs, when one of them is first needed, or once the rest is there.

import { asRefusal } from "../shared/api.js";
import { notice } from "../shared/notice.js";
import { loadPart, prefetchPart } from "../shared/parts.js";

/** @typedef {typeof import("../pages/admin-2-rest.js")} Rest */
/** @typedef {typeof import("../pages/admin-3-later.js")} Later */

const REST = 1;
const LATER = 2;
const RETRY_AFTER = 5000; // milliseconds
let isWaiting = false;

/**
 * Load the rest of the inside, as often as it takes.
 *
 * @returns {Promise<Rest>}
 */
export async function loadRest() {
  try {
    return /** @type {Rest} */ (await loadPart(REST));
  } catch (error) {
    const { message } = asRefusal(error);
    notice.show(message, "bad");
    await new Promise((resolve) => {
      setTimeout(resolve, RETRY_AFTER);
    });
    const rest = await loadRest();
    notice.clearIf(message);
    return rest;
  }
}

/** Return what is loaded later. Throws a Refusal. */
export const loadLater = () => /** @type {Promise<Later>} */ (loadPart(LATER));

/** Load it before it is needed. */
export const prefetchLater = () => prefetchPart(LATER);

/**
 * Return what is loaded later, for a dialog that was asked for; null if that cannot be loaded, which the page says, or
 * if it was asked for already.
 */
export async function loadDialogs() {
  if (isWaiting) {
    return null;
  }
  isWaiting = true;
  try {
    return await loadLater();
  } catch (error) {
    notice.showRefusal(asRefusal(error));
    return null;
  } finally {
    isWaiting = false;
  }
}
