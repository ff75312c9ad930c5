"""Addresses of the game server, and its cached status: requests get the last one and never wait for the game."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Final
from urllib.parse import quote

from plugin_bridge.server.files import PropertiesFile, ServerFileError
from plugin_bridge.server.status_ping import ServerStatus, ServerUnreachable, fetch_status
from regsvc.config.sections import Config
from regsvc.core.clock import Clock
from regsvc.core.exceptions import describe_exception
from regsvc.core.game_address import GameAddress, find_game_address, public_bedrock_address, public_game_address
from regsvc.core.shared_lookup import CachedCall
from regsvc.core.text import draw_qr_code

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
class BedrockServer:
    """A server as players of the Bedrock edition enter it."""

    address: GameAddress
    link: str
    """A link that adds the server to the game."""
    qr_code: str
    """The link as a `data:` address of an image."""


@dataclass(frozen=True)
class JoinHelp:
    """Addresses and versions of the game server; None: the host has not set them, or players cannot use them."""

    address: str | None
    versions: str | None
    bedrock: BedrockServer | None


def make_join_help(config: Config) -> JoinHelp:
    """Return what players need to join. Blocking: draws a QR code when it is called first."""
    written, bedrock = config.game.address, config.bedrock
    address = public_bedrock_address(bedrock.address, written) if bedrock.enabled else None
    return JoinHelp(
        public_game_address(written),
        config.game.versions or None,
        None if address is None else _make_bedrock_server(config.server.name, address),
    )


def _make_bedrock_server(name: str, address: GameAddress) -> BedrockServer:
    host = f"[{address.host}]" if ":" in address.host else address.host
    link = f"minecraft:?addExternalServer={quote(name.replace('|', ' '), safe='')}|{host}:{address.port}"
    return BedrockServer(address, link, _draw(link))


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
