// The public config of this host: the `config` of GET /api/config, which the server puts into every page.

import { make } from "./dom.js";

/** @type {Config} */
export const config = JSON.parse(document.body.dataset.config ?? "{}");

/**
 * Return a text as parts, in which the host's contact is a link if it is an address.
 *
 * @param {string} text
 * @returns {Array<Element | string>}
 */
export function linkContact(text) {
  const { contact } = config;
  const isMail = /^[^\s@]+@[^\s@]+$/.test(contact);
  if (!isMail && !contact?.startsWith("http")) {
    return [text];
  }
  const href = isMail ? `mailto:${contact}` : contact;
  return text
    .split(contact)
    .flatMap((part, place) => (place ? [make("a", { href, rel: "noreferrer" }, contact), part] : [part]));
}

/**
 * Return whether a player of this name plays the Bedrock edition, whose names begin with Floodgate's prefix.
 *
 * @param {string} username
 */
export function playsBedrock(username) {
  const { enabled, prefix } = config.bedrock;
  return enabled && Boolean(prefix) && username.startsWith(prefix ?? "");
}
