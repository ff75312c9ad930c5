// Cookies that tell the server how to render the pages.

const A_YEAR = 365 * 24 * 3600; // seconds

/**
 * @param {string} name
 * @param {string} value
 */
export function setCookie(name, value) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${value}; path=/; max-age=${A_YEAR}; samesite=lax${secure}`;
}
