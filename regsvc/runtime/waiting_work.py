"""Counts of what waits for an admin, for monitoring."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from peewee import PeeweeException, fn

from regsvc.core.errors import Refusal
from regsvc.database.engine import Worker
from regsvc.database.models import PENDING, Player, User

_MAX_AGE: Final = timedelta(minutes=1)  # disputed players are found by reading all sync records


@dataclass(frozen=True)
class WaitingCounts:
    """Numbers of pending users, and of players whose address differs from their user's until an admin decides."""

    pending_users: int
    disputed_players: int


class WaitingWork:
    """Counter of waiting work, which asks the database at most once a minute. Use on the event loop only."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._query: asyncio.Task[WaitingCounts | None] | None = None
        self._expires_at = 0.0  # on the loop's clock

    async def counts(self) -> WaitingCounts | None:
        """Return the counts, or None while the database does not answer."""
        moment = asyncio.get_running_loop().time()
        if self._query is None or (self._query.done() and moment >= self._expires_at):
            self._query = asyncio.create_task(self._count(), name="waiting work")
            self._expires_at = moment + _MAX_AGE.total_seconds()
        counts = await asyncio.shield(self._query)  # other scrapers wait for it, too
        if counts is None:
            self._expires_at = 0.0
        return counts

    async def _count(self) -> WaitingCounts | None:
        try:
            return await self._worker.run(count_waiting)
        except (Refusal, PeeweeException):  # the health status says so, and logs it
            return None


def count_waiting() -> WaitingCounts:
    """Count with two statements."""
    pending = User.select(fn.COUNT(User.id)).where(User.status == PENDING)
    disputed = Player.select(fn.COUNT(Player.username_key)).where(
        Player.plugin_state == "conflict", Player.conflict.is_null(False)
    )
    return WaitingCounts(int(pending.scalar()), int(disputed.scalar()))
