// Why the player who reads the page cannot join yet.

import { replaceContent } from "./dom.js";

const ASK_AGAIN = 20_000; // milliseconds: what keeps players out mostly passes by itself

/**
 * Fill the place with the reason as long as the player cannot join, and with `advice` otherwise.
 *
 * @param {import("./api.js").Api} api
 * @param {"user/why" | "application/why"} path
 * @param {HTMLElement} place
 */
export function ownWhy(api, path, place, advice = "") {
  const ask = () =>
    api.get(path).then(
      ({ canJoin, why }) => {
        replaceContent(place, canJoin ? advice : why);
        if (!canJoin) {
          setTimeout(() => place.isConnected && ask(), ASK_AGAIN);
        }
      },
      () => undefined, // the page is complete without it
    );
  ask();
  return place;
}
