// Players who are in the game, as their initials.

import { make } from "./dom.js";

const MOST = 5;

/**
 * Return a player's name, which `http.legacy_status` wraps in an object.
 *
 * @param {string | { name: string }} player
 */
export function nameOf(player) {
  return typeof player === "string" ? player : player.name;
}

/**
 * Make the initials of the first few; their names are not told to visitors, so mostly there are none.
 *
 * @param {Array<string | { name: string }> | null | undefined} players
 */
export function headsOf(players) {
  const names = (players ?? []).slice(0, MOST).map(nameOf);
  return names.map((name) =>
    make("span", { class: "head", title: name }, name.replace(/^\W/, "").slice(0, 1).toUpperCase()),
  );
}
