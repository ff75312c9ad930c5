// The public config of this host: the `config` of GET /api/config, which the server puts into every page.

/** @type {Config} */
export const config = JSON.parse(document.body.dataset.config ?? "{}");

/**
 * Return whether a player of this name plays the Bedrock edition, whose names begin with Floodgate's prefix.
 *
 * @param {string} username
 */
export function playsBedrock(username) {
  const { enabled, prefix } = config.bedrock;
  return enabled && Boolean(prefix) && username.startsWith(prefix ?? "");
}
