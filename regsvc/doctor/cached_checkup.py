"""The doctor within the companion that runs: one checkup at a time, for however many operators ask."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from regsvc.core.clock import Clock
from regsvc.doctor.checkup import Checkup, examine
from regsvc.doctor.facts.facts import Facts

MAX_AGE: Final = timedelta(minutes=1)


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
        max_age: timedelta = MAX_AGE,
    ) -> None:
        """`gather`: what is known at this moment, before anything was looked up. A checkup younger than `max_age` is
        good enough for whoever does not want a new one.
        """
        self._gather = gather
        self._now = now
        self._examine = examine
        self._max_age = max_age.total_seconds()
        self._task: asyncio.Task[CheckupResult] | None = None
        self._expires_at = 0.0  # on the loop's clock

    async def get(self, *, force: bool = False) -> CheckupResult:
        """What a checkup says: that under way, the last one, or a new one. It may take some seconds."""
        task = self._task
        if task is None or (task.done() and (force or asyncio.get_running_loop().time() >= self._expires_at)):
            self._expires_at = 0.0  # one that fails is not remembered
            task = self._task = asyncio.create_task(self._look(), name="doctor")
        return await asyncio.shield(task)

    async def _look(self) -> CheckupResult:
        checkup = await asyncio.to_thread(self._examine, self._gather())
        self._expires_at = asyncio.get_running_loop().time() + self._max_age
        return CheckupResult(checkup, self._now())
