// Which view is shown, and what of it, is in the hash of the address.

import { queryString } from "../shared/api.js";

/**
 * Return the hash of a view: "#users?status=banned".
 *
 * @param {string} viewId
 * @param {Query} query
 */
export function hashFor(viewId, query = {}) {
  const parameters = queryString(query);
  return parameters ? `#${viewId}?${parameters}` : `#${viewId}`;
}

/**
 * Return the view and the query of a hash such as "#users?status=banned".
 *
 * @param {string} hash
 * @returns {{ id: string, query: Record<string, string> }}
 */
export function parseHash(hash) {
  const [id, query = ""] = hash.slice(1).split(/\?(.*)/s, 2);
  return { id, query: Object.fromEntries(new URLSearchParams(query)) };
}
