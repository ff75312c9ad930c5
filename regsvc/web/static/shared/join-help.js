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
 * @param {{ heading?: "h2" | "h3", username?: string }} options `username`: of whom it is for, if that is known
 */
export function joinHelp(api, config, { heading = "h2", username = "" } = {}) {
  const section = make("div", { class: "join" });
  api.get("server/join").then(
    ({ data }) =>
      data.address !== null && replaceContent(section, render(data, data.address, config, heading, username)),
    () => undefined, // the page is complete without it
  );
  return section;
}

/**
 * @param {JoinHelp} help
 * @param {string} address
 * @param {Config} config
 * @param {"h2" | "h3"} heading
 * @param {string} username
 */
function render({ versions, bedrock }, address, config, heading, username) {
  const isBedrock = playsBedrock(username);
  const login = config.authme.enabled && make("li", {}, t("join_login"));
  const java = make(
    "ol",
    {},
    make("li", {}, t("join_java_open")),
    make("li", {}, t("join_java_add", { address })),
    login,
  );
  return [
    make(heading, {}, t("join_title")),
    definitionList([
      [t("join_address"), copyable(address)],
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
