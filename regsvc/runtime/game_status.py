"""Addresses of the game server, and its cached status: requests get the last one and never wait for the game."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from plugin_bridge.server.files import PropertiesFile, ServerFileError
from plugin_bridge.server.status_ping import ServerStatus, ServerUnreachable, fetch_status
from regsvc.config.sections import Config
from regsvc.core.addresses import GameAddress, find_game_address, public_bedrock_address, public_game_address
from regsvc.core.clock import Clock
from regsvc.core.exceptions import describe_exception
from regsvc.core.shapes import Moment, Output
from regsvc.core.shared_lookup import CachedCall
from regsvc.core.text import draw_qr_code
from regsvc.http.messages import to_reply
from regsvc.http.route import ACCESS_TOKEN, PUBLIC, Routes, SentAs

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

log = logging.getLogger(__name__)

PING_INTERVAL: Final = timedelta(seconds=30)
"""Between pings without requests, so that the first request after a pause does not get a much older status."""
MAX_AGE: Final = timedelta(seconds=5)
TIMEOUT: Final = timedelta(seconds=3)


@dataclass(frozen=True)
class LastStatus:
    """The result of the last ping. `status` None: no answer, or no ping yet (then `at` is None, too)."""

    status: ServerStatus | None = None
    at: datetime | None = None
    is_hidden: bool = False
    """Whether there is no answer because the server is set to give none."""


class GameStatus:
    """Cached status of the game server, which is pinged at most once at a time. Use on the event loop only."""

    def __init__(
        self,
        find_address: Callable[[], GameAddress | None],
        now: Clock,
        *,
        is_hidden: Callable[[], bool] = lambda: False,
        max_age: timedelta = MAX_AGE,
        timeout: timedelta = TIMEOUT,
    ) -> None:
        """`find_address` may block and raise `ServerFileError`. `max_age`: how long a result stays fresh.

        `is_hidden` may block; it tells whether the server is set to answer no pings. `timeout`: how long the server may
        take to answer a ping.
        """
        self.find_address = find_address
        self._is_hidden = is_hidden
        self._now = now
        self._timeout = timeout.total_seconds()
        self._last = LastStatus()
        self._ping = CachedCall(self._update, max_age, "game-status")

    def last_status(self) -> LastStatus:
        """Return the last result at once; if it has expired, start a ping for the next caller."""
        self._ping.start()
        return self._last

    async def refresh(self) -> LastStatus:
        """Wait for the ping under way or a new one. Never raises: any problem counts as no answer."""
        return await self._ping.get(force=True)

    async def _update(self) -> LastStatus:
        status = await self._find_status()
        is_hidden = status is None and await asyncio.to_thread(self._is_hidden)
        self._last = LastStatus(status, self._now(), is_hidden)
        return self._last

    async def _find_status(self) -> ServerStatus | None:
        try:
            address = await asyncio.to_thread(self.find_address)
            if address is None:
                return None
            return await fetch_status(address.host, address.port, self._timeout)
        except (ServerUnreachable, ServerFileError) as error:
            log.debug("the game server does not answer: %s", error)
        except Exception as bug:
            log.error("pinging the game server failed unexpectedly: %s", describe_exception(bug))
        return None


@dataclass(frozen=True)
class GameServers:
    """The status of the main game server, and of each of a network by name, the main one first; empty: only one."""

    main: GameStatus
    network: Mapping[str, GameStatus]


class BedrockServerFields(Output, frozen=True):
    """The server as players of the Bedrock edition enter it."""

    host: Annotated[str, Meta(examples=["play.example.org"])]
    port: Annotated[int, Meta(examples=[19132])]
    link: Annotated[
        str,
        Meta(
            description="Adds the server to the game.",
            examples=["minecraft:?addExternalServer=Oakvale|play.example.org:19132"],
        ),
    ]
    qr_code: Annotated[str, Meta(description="The link as a PNG image.", examples=["data:image/png;base64,iVBORw0K"])]


class JoinHelpFields(Output, frozen=True):
    """The addresses that players join; null: not set, or `bedrock.enabled` is off."""

    address: Annotated[str, Meta(examples=["play.example.org"])] | None
    versions: Annotated[str, Meta(examples=["1.20 to 1.21.4"])] | None
    bedrock: BedrockServerFields | None


def make_join_help(config: Config) -> JoinHelpFields:
    """Return what players need to join. Blocking: draws a QR code when it is called first."""
    written, bedrock = config.game.address, config.bedrock
    address = public_bedrock_address(bedrock.address, written) if bedrock.enabled else None
    return JoinHelpFields(
        public_game_address(written),
        config.game.versions or None,
        None if address is None else _make_bedrock_server(config.server.name, address),
    )


def _make_bedrock_server(name: str, address: GameAddress) -> BedrockServerFields:
    host = f"[{address.host}]" if ":" in address.host else address.host
    link = f"minecraft:?addExternalServer={quote(name.replace('|', ' '), safe='')}|{host}:{address.port}"
    return BedrockServerFields(address.host, address.port, link, _draw(link))


_draw: Final = lru_cache(maxsize=1)(draw_qr_code)


def make_game_statuses(config: Config, files: Mapping[str, PropertiesFile], now: Clock) -> dict[str, GameStatus]:
    """Return the status of the main game server under "", and of each further one that the config tells how to reach.

    `files`: the server.properties of each server (`Config.game_servers`).
    """
    return {
        server: GameStatus(
            partial(find_game_address, game.address, game.server_properties_path),
            now,
            is_hidden=partial(_is_status_hidden, files[server]),
        )
        for server, game in config.game_servers.items()
        if not server or game.is_known
    }


def _is_status_hidden(properties: PropertiesFile) -> bool:
    """Return whether the game server is set to answer no status pings. Blocking."""
    current = properties.refresh()
    return current is not None and not current.enable_status


PlayerNames = Annotated[
    list[str],
    Meta(
        description="Names of players, as far as the server reports them. Only for logged-in users.",
        examples=[["Alice"]],
    ),
]


class OnlinePlayersFields(Output, frozen=True, kw_only=True):
    """The number of players online; null while the server does not answer."""

    online: Annotated[int, Meta(ge=0, examples=[2])] | None
    max: Annotated[int, Meta(ge=0, examples=[20])] | None
    names: PlayerNames | UnsetType = msgspec.field(default=UNSET, name="list")


class NetworkServerFields(Output, frozen=True, kw_only=True):
    """The last answer of one of several game servers; see `GameServerFields`."""

    name: Annotated[str, Meta(examples=["survival"])]
    online: Annotated[bool, Meta(examples=[True])]
    players: OnlinePlayersFields
    version: Annotated[str, Meta(examples=["Paper 1.21.4"])] | None
    checked_at: Moment | None
    status_hidden: Annotated[bool, Meta(examples=[False])]


class GameServerFields(Output, frozen=True, kw_only=True):
    """The game server's last answer. While it does not answer, `online` is false and the rest null."""

    online: Annotated[bool, Meta(examples=[True])]
    players: OnlinePlayersFields
    version: Annotated[str, Meta(examples=["Paper 1.21.4"])] | None
    motd: Annotated[str, Meta(description="Message of the day, unformatted.", examples=["A Minecraft Server"])] | None
    latency_ms: Annotated[int, Meta(ge=0, examples=[3])] | None
    checked_at: Annotated[Moment, Meta(description="The time of the last query; null before it.")] | None
    status_hidden: Annotated[
        bool, Meta(description="Whether it does not answer because of `enable-status=false`.", examples=[False])
    ]
    servers: (
        Annotated[
            list[NetworkServerFields],
            Meta(description="All game servers, the main one first. Only where there are several."),
        ]
        | UnsetType
    ) = UNSET


class DownloadFields(Output, frozen=True, kw_only=True):
    """A file that this host offers; unset texts are empty. URLs may be paths on this server."""

    id: Annotated[str, Meta(examples=["client"])]
    name: Annotated[str, Meta(examples=["Client"])]
    description: Annotated[str, Meta(examples=["Everything you need to join."])]
    version: Annotated[str, Meta(examples=["1.21.4"])]
    size: Annotated[str, Meta(description="The size as text.", examples=["12 MB"])]
    url: Annotated[str, Meta(examples=["/files/client.zip"])]
    icon: Annotated[str, Meta(examples=["/files/client.png"])]


@ROUTES.add("GET", "/api/server/status", PUBLIC, credentials=(ACCESS_TOKEN,))
async def show_server_status(
    call: Call, game_servers: GameServers
) -> Annotated[GameServerFields, SentAs("data", "ServerStatusReply")]:
    """Show the game server's status of some seconds ago. Only logged-in users see the names of the players."""
    last, network = game_servers.main.last_status(), game_servers.network
    status = last.status
    return GameServerFields(
        online=status is not None,
        players=_players(call, status),
        version=status.version if status else None,
        motd=status.motd if status else None,
        latency_ms=round(status.latency * 1000) if status else None,
        checked_at=last.at,
        status_hidden=last.is_hidden,
        servers=[_server(call, name, game.last_status()) for name, game in network.items()] or UNSET,
    )


def _server(call: Call, name: str, last: LastStatus) -> NetworkServerFields:
    status = last.status
    return NetworkServerFields(
        name=name,
        online=status is not None,
        players=_players(call, status),
        version=status.version if status else None,
        checked_at=last.at,
        status_hidden=last.is_hidden,
    )


def _players(call: Call, status: ServerStatus | None) -> OnlinePlayersFields:
    names = [] if status is None else [player.name for player in status.players]
    return OnlinePlayersFields(
        online=status.online if status else None,
        max=status.max if status else None,
        names=UNSET if call.session is None else names,
    )


@ROUTES.add("GET", "/api/server/join", PUBLIC)
async def show_join_help(call: Call) -> Annotated[JoinHelpFields, SentAs("data", "JoinHelpReply")]:
    """Show what players need to join the game: addresses, versions, and a QR code for phones."""
    return await asyncio.to_thread(make_join_help, call.config)


@ROUTES.add("GET", "/api/downloads", PUBLIC)
async def list_downloads(call: Call) -> Annotated[list[DownloadFields], SentAs("resources", "DownloadsReply")]:
    """List the files that this host offers to players, such as a client or a resource pack."""
    return [to_reply(DownloadFields, download, id=name) for name, download in call.config.downloads.items()]
