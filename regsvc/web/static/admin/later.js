// What the first view does not need: the other views and the dialogs, loaded when one of them is first needed, or when
// the first view is shown.

import { asRefusal } from "../shared/api.js";
import { notice } from "../shared/notice.js";
import { loadPart, prefetchPart } from "./parts.js";

/** @typedef {typeof import("../pages/admin-2-later.js")} Later */

const LATER = 1;
let isWaiting = false;

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
