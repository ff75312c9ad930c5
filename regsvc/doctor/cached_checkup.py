"""The doctor within the companion that runs: one checkup at a time, for however many operators ask."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from regsvc.core.clock import Clock
from regsvc.doctor.checkup import Checkup, examine
from regsvc.doctor.facts.facts import Facts

FRESH: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class CheckupResult:
    """What was found, and when."""

    checkup: Checkup
    at: datetime


class CachedCheckup:
    """Looks on a thread of its own and remembers. For the event loop alone."""

    def __init__(
        self,
        gather: Callable[[], Facts],
        now: Clock,
        *,
        examine: Callable[[Facts], Checkup] = examine,
        fresh: timedelta = FRESH,
    ) -> None:
        """`gather`: what is known at this moment, before anything was looked up. A checkup younger than `fresh` is
        good enough for whoever does not want a new one.
        """
        self._gather = gather
        self._now = now
        self._examine = examine
        self._fresh = fresh.total_seconds()
        self._visit: asyncio.Task[CheckupResult] | None = None
        self._is_old_at = 0.0  # on the loop's clock

    async def ask(self, *, wants_new: bool = False) -> CheckupResult:
        """What a checkup says: that under way, the last one, or a new one. It may take some seconds."""
        visit = self._visit
        if visit is None or (visit.done() and (wants_new or asyncio.get_running_loop().time() >= self._is_old_at)):
            self._is_old_at = 0.0  # one that fails is not remembered
            visit = self._visit = asyncio.create_task(self._look(), name="doctor")
        return await asyncio.shield(visit)

    async def _look(self) -> CheckupResult:
        checkup = await asyncio.to_thread(self._examine, self._gather())
        self._is_old_at = asyncio.get_running_loop().time() + self._fresh
        return CheckupResult(checkup, self._now())
