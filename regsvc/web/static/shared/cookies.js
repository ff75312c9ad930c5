// Cookies that tell the server how to render the pages.

const A_YEAR = 365 * 24 * 3600; // seconds

/**
 * Over HTTPS the name gets the prefix `__Host-`, with which no other host can set the cookie; over plain HTTP browsers
 * refuse such a cookie.
 *
 * @param {string} name
 * @param {string} value
 */
export function setCookie(name, value) {
  const [prefix, secure] = location.protocol === "https:" ? ["__Host-", "; secure"] : ["", ""];
  document.cookie = `${prefix}${name}=${value}; path=/; max-age=${A_YEAR}; samesite=lax${secure}`;
}
