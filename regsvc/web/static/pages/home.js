// The home page: the server itself draws most of it; here are the game server's status and address.

import { Api, asRefusal } from "../shared/api.js";
import { config } from "../shared/config.js";
import { copyable } from "../shared/copyable.js";
import { make, replaceContent, setText } from "../shared/dom.js";
import { headsOf } from "../shared/heads.js";
import { t } from "../shared/i18n.js";
import { startPage } from "../shared/page.js";
import { Session } from "../shared/session.js";

const REFRESH_INTERVAL = 30_000; // milliseconds; the companion asks the game as often
const FIRST_REFRESH = 2000; // the companion has only just started to ask

// signed-in players see who is online; a session that has ended changes nothing else here
const api = new Api(new Session("user"), () => location.reload());
const state = make("span", { class: "pill state", "aria-live": "polite" });
const heads = make("span", { class: "heads", "aria-hidden": "true" });

/** @param {HTMLElement} content */
function render(content) {
  state.textContent = t("not_asked");
  replaceContent(
    content,
    make("p", { class: "now" }, state, heads),
    config.gameAddress !== null &&
      make("p", { class: "address" }, make("span", {}, t("address")), copyable(config.gameAddress)),
  );
  load();
}

/** Show the status now, and again later. What cannot be loaded leaves the last one, or none. */
async function load() {
  let delay = REFRESH_INTERVAL;
  try {
    const { data } = await api.get("server/status");
    showStatus(data);
    delay = data.checkedAt === null ? FIRST_REFRESH : REFRESH_INTERVAL;
  } catch (error) {
    asRefusal(error);
    state.hidden ||= state.textContent === t("not_asked");
  }
  setTimeout(refresh, delay);
}

/** Load the status again if the page is visible. */
async function refresh() {
  if (document.hidden) {
    setTimeout(refresh, REFRESH_INTERVAL);
  } else {
    await load();
  }
}

/** @param {ServerStatus} server */
function showStatus({ online, checkedAt, players, statusHidden }) {
  state.className = online ? "pill state good" : "pill state";
  state.hidden = statusHidden;
  const offline = checkedAt === null ? t("not_asked") : t("offline");
  replaceContent(heads, headsOf(players.list));
  setText(state, online ? t("players_online", { online: players.online, max: players.max }) : offline);
}

startPage(render);
