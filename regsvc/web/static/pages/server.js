// The game server's current status, and what the host offers to download.

import { Api } from "../shared/api.js";
import { config } from "../shared/config.js";
import { definitionList, make, replaceContent } from "../shared/dom.js";
import { nameOf } from "../shared/heads.js";
import { t } from "../shared/i18n.js";
import { joinHelp } from "../shared/join-help.js";
import { startPage } from "../shared/page.js";
import { Session } from "../shared/session.js";

// milliseconds
const REFRESH_INTERVAL = 30_000; // the companion asks the game as often
const FIRST_REFRESH = 2000; // the companion has only just started to ask

// signed-in players see who is online; a session that has ended changes nothing else here
const api = new Api(new Session("user"), () => location.reload());

/** @param {HTMLElement} content */
async function render(content) {
  const [{ data }, { resources }] = await Promise.all([api.get("server/status"), api.get("downloads")]);
  const container = make("div", { "aria-live": "polite" });
  show(container, data);
  const downloads = resources.length > 0 && [
    make("h2", {}, t("downloads")),
    make("ul", { class: "cards" }, resources.map(renderDownload)),
  ];
  replaceContent(content, container, joinHelp(api, config), downloads);
}

/**
 * @param {HTMLElement} container
 * @param {ServerStatus} data
 */
function show(container, data) {
  const now = make("div", {}, renderStatus(data));
  if (now.textContent !== container.textContent) {
    replaceContent(container, [...now.childNodes]); // what is as before is not read aloud again
  }
  setTimeout(() => refresh(container, data), data.checkedAt === null ? FIRST_REFRESH : REFRESH_INTERVAL);
}

/**
 * @param {HTMLElement} container
 * @param {ServerStatus} before
 */
async function refresh(container, before) {
  let data = before;
  if (!document.hidden) {
    try {
      ({ data } = await api.get("server/status"));
    } catch {
      data = before; // the last status stays until it can be refreshed
    }
  }
  show(container, data);
}

/** @param {ServerStatus} server */
function renderStatus(server) {
  if (server.servers) {
    return server.servers.map((one) => [make("h2", {}, one.name), ...renderAnswer(one)]);
  }
  return renderAnswer(server);
}

/** @param {Omit<ServerAnswer, "name">} server */
function renderAnswer({ online, checkedAt, statusHidden, motd, players, version }) {
  const unanswered = statusHidden ? "status_hidden" : "offline";
  const state = online ? "online" : checkedAt === null ? "not_asked" : unanswered;
  return [
    make("p", { class: online ? "pill state good" : "pill state", "data-state": state }, t(state)),
    definitionList([
      [t("motd"), motd],
      [t("players"), online ? t("players_of", { online: players.online, max: players.max }) : ""],
      [t("playing"), (players.list ?? []).map(nameOf).join(", ")],
      [t("version"), version],
    ]),
  ];
}

/** @param {Download} download */
function renderDownload({ name, description, version, size, url, icon }) {
  return make(
    "li",
    {},
    icon.includes("/") && make("img", { src: icon, alt: "", width: "48", height: "48" }),
    make(
      "div",
      {},
      make("a", { href: url, rel: "noreferrer" }, name || url),
      make("p", { class: "quiet-text" }, [version, size].filter(Boolean).join(" · ")),
      description && make("p", {}, description),
    ),
  );
}

startPage(render);
