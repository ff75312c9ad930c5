"""How the game server is, as it was heard last: a request is told at once and never waits for the game."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.status_ping import ServerStatus, ServerUnreachable, fetch_status
from regsvc.core.clock import Clock
from regsvc.core.exceptions import describe_exception
from regsvc.core.game_address import GameAddress

log = logging.getLogger(__name__)

ASK_EVERY: Final = timedelta(seconds=30)
"""While nobody wants to know; so nobody is told what is much older."""
FRESH: Final = timedelta(seconds=5)
PATIENCE: Final = timedelta(seconds=3)


@dataclass(frozen=True)
class LastStatus:
    """`status` None: the server is silent, or nobody has asked it yet (`at` is None, too)."""

    status: ServerStatus | None = None
    at: datetime | None = None


class GameStatus:
    """Asks the game server, one ping for however many want to know. For the event loop alone."""

    def __init__(
        self,
        find_address: Callable[[], GameAddress | None],
        now: Clock,
        *,
        fresh: timedelta = FRESH,
        patience: timedelta = PATIENCE,
    ) -> None:
        """`find_address` may block and raise `ServerFileError`. An answer younger than `fresh` is not asked for again,
        and the server has `patience` to give one.
        """
        self._find_address = find_address
        self._now = now
        self._fresh = fresh.total_seconds()
        self._patience = patience.total_seconds()
        self._last = LastStatus()
        self._ping: asyncio.Task[LastStatus] | None = None
        self._is_old_at = 0.0  # on the loop's clock

    def last_heard(self) -> LastStatus:
        """At once; what has become old is asked for, so that whoever comes next is told the news."""
        if asyncio.get_running_loop().time() >= self._is_old_at:
            self._begin()
        return self._last

    async def ask(self) -> LastStatus:
        """Wait for an answer that comes after this call. Whatever may be wrong, the server is silent then."""
        return await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[LastStatus]:
        """The ping under way, or a new one."""
        if self._ping is None or self._ping.done():
            self._ping = asyncio.create_task(self._hear(), name="game-status")
        return self._ping

    async def _hear(self) -> LastStatus:
        status = await self._find_status()
        self._last = LastStatus(status, self._now())
        self._is_old_at = asyncio.get_running_loop().time() + self._fresh
        return self._last

    async def _find_status(self) -> ServerStatus | None:
        try:
            address = await asyncio.to_thread(self._find_address)
            if address is None:
                return None
            return await fetch_status(address.host, address.port, self._patience)
        except (ServerUnreachable, ServerFileError) as error:
            log.debug("the game server is silent: %s", error)
        except Exception as bug:
            log.error("asking the game server met a bug: %s", describe_exception(bug))
        return None
