// How to join the game: the address with a button to copy it, versions, and the steps in each edition.

import { playsBedrock } from "./config.js";
import { copyable } from "./copyable.js";
import { definitionList, make, replaceContent } from "./dom.js";
import { t } from "./i18n.js";

/**
 * Make the help, which appears once it is loaded; nothing does where the host has set no address.
 *
 * @param {import("./api.js").Api} api
 * @param {Config} config
 * @param {{ heading?: "h2" | "h3", username?: string, isAddressShown?: boolean }} options `username`: of whom it is
 *   for, if that is known; `isAddressShown`: elsewhere on the page
 */
export function joinHelp(api, config, { heading = "h2", username = "", isAddressShown = false } = {}) {
  const section = make("div", { class: "join" });
  api.get("server/join").then(
    ({ data }) =>
      data.address !== null &&
      replaceContent(section, render(data, data.address, config, { heading, username, isAddressShown })),
    () => undefined, // the page is complete without it
  );
  return section;
}

/**
 * @param {JoinHelp} help
 * @param {string} address
 * @param {Config} config
 * @param {{ heading: "h2" | "h3", username: string, isAddressShown: boolean }} options
 */
function render({ versions, bedrock }, address, config, { heading, username, isAddressShown }) {
  const isBedrock = playsBedrock(username);
  const login = config.authme.enabled && make("li", {}, t("join_login"));
  const java = renderJava(address, config.webServerPrefix, login);
  return [
    make(heading, {}, t("join_title")),
    definitionList([
      [t("join_address"), isAddressShown ? "" : copyable(address)],
      [t("join_versions"), versions],
    ]),
    bedrock === null
      ? java
      : [
          make("details", { open: !isBedrock }, make("summary", {}, t("join_java")), java),
          make("details", { open: isBedrock }, make("summary", {}, t("join_bedrock")), renderBedrock(bedrock, login)),
        ],
  ];
}

/**
 * Make the steps, with pictures of the game's menus. Screen readers have the sentences, which name the same buttons.
 *
 * @param {string} address
 * @param {string} server
 * @param {Child} login
 */
function renderJava(address, server, login) {
  const words = {
    address,
    multiplayer: t("game_multiplayer"),
    add: t("game_add"),
    label: t("game_address"),
    done: t("game_done"),
    join: t("game_join"),
  };
  const step = (/** @type {string} */ key, /** @type {Child[][]} */ ...menus) =>
    make(
      "li",
      {},
      t(key, words),
      menus.map((menu) => make("div", { class: "menu", "aria-hidden": "true" }, menu)),
    );
  const press = (/** @type {string} */ word) => make("b", {}, word);
  return make(
    "ol",
    {},
    step("join_java_open", [make("p"), press(words.multiplayer), make("p")]),
    step("join_java_add", [press(words.add)], [words.label, make("code", {}, address), press(words.done)]),
    step("join_java_join", [make("code", {}, server), press(words.join)]),
    login,
  );
}

/**
 * @param {NonNullable<JoinHelp["bedrock"]>} bedrock
 * @param {Child} login
 */
function renderBedrock({ host, port, link, qrCode }, login) {
  return [
    make(
      "ol",
      {},
      make("li", {}, t("join_bedrock_scan")),
      make("li", {}, t("join_bedrock_type", { host, port })),
      login && make("li", {}, t("join_login")),
    ),
    make("p", {}, make("a", { href: link, class: "button quiet" }, t("join_bedrock_add"))),
    make("img", { class: "qr-code", src: qrCode, alt: t("join_qr_code") }),
  ];
}
