// The game server as it is now, and what the host offers to download.

import { Api } from "../shared/api.js";
import { make, fillWith } from "../shared/dom.js";
import { start } from "../shared/page.js";
import { facts } from "../shared/notice.js";
import { Session } from "../shared/session.js";
import { word } from "../shared/i18n.js";

// milliseconds
const ASK_AGAIN = 30_000; // the companion asks the game as often
const ASK_SOON = 2000; // it has begun to ask just now

// who is logged in is told who plays; a login that has ended changes nothing else here
const api = new Api(new Session("user"), () => location.reload());

async function draw(inside) {
  const [{ data }, { resources }, { config }] = await Promise.all([
    api.get("server/status"),
    api.get("downloads"),
    api.get("config"),
  ]);
  const status = make("div", { "aria-live": "polite" });
  show(status, data, config);
  fillWith(inside, status, resources.length > 0 && [make("h2", {}, word("downloads")), make("ul", { class: "cards" }, resources.map(downloadOf))]);
}

function show(status, data, config) {
  fillWith(status, statusOf(data, config));
  setTimeout(() => refresh(status, data, config), data.checkedAt === null ? ASK_SOON : ASK_AGAIN);
}

async function refresh(status, before, config) {
  let data = before;
  if (!document.hidden) {
    try {
      ({ data } = await api.get("server/status"));
    } catch {
      data = before; // what was seen last stays, until it can be asked again
    }
  }
  show(status, data, config);
}

function statusOf(server, config) {
  const state = make(
    "p",
    { class: server.online ? "state good" : "state" },
    word(server.online ? "online" : server.checkedAt === null ? "not_asked" : "offline"),
  );
  const players = server.online
    ? word("players_of", { online: server.players.online, max: server.players.max })
    : "";
  return [
    state,
    facts([
      [word("address"), config.gameAddress],
      [word("motd"), server.motd],
      [word("players"), players],
      [word("playing"), (server.players.list ?? []).join(", ")],
      [word("version"), server.version],
    ]),
  ];
}

function downloadOf({ name, description, version, size, url, icon }) {
  return make(
    "li",
    {},
    icon && make("img", { src: icon, alt: "", width: "48", height: "48" }),
    make(
      "div",
      {},
      make("a", { href: url, rel: "noreferrer" }, name || url),
      make("p", { class: "quiet-text" }, [version, size].filter(Boolean).join(" · ")),
      description && make("p", {}, description),
    ),
  );
}

start(draw);
