"""How we are, for whoever watches: cheap to ask, and without a name or a secret in the answer."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from peewee import PeeweeException

from regsvc.core.clock import Clock
from regsvc.core.errors import DatabaseUnavailable, Refusal
from regsvc.core.exceptions import describe_exception
from regsvc.database.engine import Worker
from regsvc.notifications.outbox import Backlog, Outbox
from regsvc.sync.service import SyncService

log = logging.getLogger(__name__)

_FRESH: Final = timedelta(seconds=1)
_PATIENCE: Final = timedelta(seconds=3)  # shorter than the time-outs of those who probe us
_RETRY_AFTER: Final = 2


class Bridge(StrEnum):
    """AuthMe's table, as the last run of the sync found it."""

    UP = "up"
    AWAY = "away"
    UNKNOWN = "unknown"
    """There was no run yet."""
    OFF = "off"
    """There is no AuthMe here."""


@dataclass(frozen=True)
class HealthStatus:
    """`refusal` is what requests get that need the database; None: we are ready.

    `waiting_mails` and `oldest_mail_age` are None while the database does not tell, the age also when no mail waits.
    """

    refusal: Refusal | None
    bridge: Bridge
    is_braked: bool
    waiting_mails: int | None
    oldest_mail_age: timedelta | None

    @property
    def is_ready(self) -> bool:
        """Whether the database is there and has our tables."""
        return self.refusal is None


class Health:
    """Asks the database at most once a second, however many ask us. For the event loop alone."""

    def __init__(
        self,
        worker: Worker,
        outbox: Outbox,
        sync: SyncService,
        now: Clock,
        *,
        is_bridge_on: bool,
        patience: timedelta = _PATIENCE,
    ) -> None:
        """`patience` is how long the database may take to answer until it counts as away."""
        self._worker = worker
        self._outbox = outbox
        self._sync = sync
        self._now = now
        self._is_bridge_on = is_bridge_on
        self._patience = patience
        self._look: asyncio.Task[Backlog | Refusal] | None = None
        self._is_fresh_until = 0.0  # on the loop's clock

    async def vitals(self) -> HealthStatus:
        """Whatever may be wrong: it is told, never raised."""
        found = await self._backlog()
        backlog = None if isinstance(found, Refusal) else found
        report = self._sync.last_report
        return HealthStatus(
            refusal=found if isinstance(found, Refusal) else None,
            bridge=self._bridge(),
            is_braked=report is not None and report.held_back is not None,
            waiting_mails=None if backlog is None else backlog.count,
            oldest_mail_age=None if backlog is None else self._age(backlog),
        )

    def _bridge(self) -> Bridge:
        if not self._is_bridge_on:
            return Bridge.OFF
        report = self._sync.last_report
        if report is None:
            return Bridge.UNKNOWN
        return Bridge.UP if report.away is None else Bridge.AWAY

    def _age(self, backlog: Backlog) -> timedelta | None:
        if backlog.oldest_at is None:
            return None
        return max(self._now() - backlog.oldest_at, timedelta(0))

    async def _backlog(self) -> Backlog | Refusal:
        moment = asyncio.get_running_loop().time()
        if self._look is None or (self._look.done() and moment >= self._is_fresh_until):
            self._look = asyncio.create_task(self._ask_database(), name="health")
            self._is_fresh_until = moment + _FRESH.total_seconds()
        look = self._look
        await asyncio.wait([look], timeout=self._patience.total_seconds())  # leaves it going: others wait for it, too
        return look.result() if look.done() else DatabaseUnavailable(retry_after=_RETRY_AFTER)

    async def _ask_database(self) -> Backlog | Refusal:
        try:
            return await self._worker.run(self._outbox.backlog)
        except Refusal as refusal:
            return refusal
        except PeeweeException as error:  # it is there, but not as we left it
            log.error("the database does not answer as it should: %s", describe_exception(error))
            return DatabaseUnavailable(retry_after=_RETRY_AFTER)
