// Why the player who reads the page cannot join yet; nothing if they can.

import { make, replaceContent } from "./dom.js";

/**
 * @param {import("./api.js").Api} api
 * @param {"user/why" | "application/why"} path
 */
export function ownWhy(api, path) {
  const place = make("div", { "aria-live": "polite" });
  api.get(path).then(
    ({ canJoin, why }) => !canJoin && replaceContent(place, make("p", { class: "notice", "data-kind": "bad" }, why)),
    () => undefined, // the page is complete without it
  );
  return place;
}
