"""Checkup inside the running daemon: one at a time, shared by all operators who request it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from regsvc.core.clock import Clock
from regsvc.doctor.abandonable import await_call
from regsvc.doctor.checkup import Checkup, examine
from regsvc.doctor.facts.facts import Facts

MAX_AGE: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class CheckupResult:
    """A checkup and the time it was made."""

    checkup: Checkup
    at: datetime


class CachedCheckup:
    """Checkups on a thread of their own; the last result is cached. Use on the event loop only."""

    def __init__(
        self,
        gather: Callable[[], Facts],
        now: Clock,
        *,
        examine: Callable[[Facts], Checkup] = examine,
        max_age: timedelta = MAX_AGE,
    ) -> None:
        """`gather` creates the facts for a new checkup. A checkup younger than `max_age` is reused unless forced."""
        self._gather = gather
        self._now = now
        self._examine = examine
        self._max_age = max_age.total_seconds()
        self._task: asyncio.Task[CheckupResult] | None = None
        self._expires_at = 0.0  # on the loop's clock

    async def get(self, *, force: bool = False) -> CheckupResult:
        """Return the checkup under way, the cached one, or a new one (always, with `force`, if none is under way).

        A new one may take some seconds.
        """
        task = self._task
        if task is None or (task.done() and (force or asyncio.get_running_loop().time() >= self._expires_at)):
            self._expires_at = 0.0  # a failed checkup is not cached
            task = self._task = asyncio.create_task(self._run_checkup(), name="doctor")
        return await asyncio.shield(task)

    async def _run_checkup(self) -> CheckupResult:
        checkup = await await_call(partial(self._examine, self._gather()))
        self._expires_at = asyncio.get_running_loop().time() + self._max_age
        return CheckupResult(checkup, self._now())
