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
 * Make a player's initial.
 *
 * @param {string} name
 * @param {Attributes} attributes
 */
export function headOf(name, attributes) {
  return make("span", { class: "head", ...attributes }, name.replace(/^\W/, "").slice(0, 1).toUpperCase());
}

/**
 * Make the initials of the first few; their names are not told to visitors, so mostly there are none.
 *
 * @param {Array<string | { name: string }> | null | undefined} players
 */
export function headsOf(players) {
  const names = (players ?? []).slice(0, MOST).map(nameOf);
  return names.map((name) => headOf(name, { title: name }));
}
