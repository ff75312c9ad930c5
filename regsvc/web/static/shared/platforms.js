// The names of chat platforms.

/** @type {Record<string, string>} */
const TITLES = { discord: "Discord", telegram: "Telegram", onebot: "QQ" };

/** @param {string} platform as the API names it */
export function platformTitle(platform) {
  return TITLES[platform] ?? platform;
}
