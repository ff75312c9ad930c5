// The device of a session, in words.

import { t } from "./i18n.js";

/**
 * Return browser and system; "" where neither is known.
 *
 * @param {{ browser: string | null, system: string | null }} session
 */
export function nameDevice({ browser, system }) {
  return browser && system ? t("session_device", { browser, system }) : (browser ?? system ?? "");
}
