"""What happens by the clock: a name, a period, a function. Every job is also a command."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tornado.ioloop import PeriodicCallback

from regsvc.core.errors import Refusal
from regsvc.core.exceptions import describe_exception

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """`run` never overlaps itself: a tick while it is under way is left out."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[object]]
    is_due_at_start: bool = False
    is_cut_at_stop: bool = False
    """It waits for others, and nothing is lost when it is not waited for."""


class JobRunner:
    """Runs jobs on the event loop until it is stopped."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._callbacks: list[PeriodicCallback] = []
        self._under_way: dict[asyncio.Task[None], Job] = {}

    def start(self) -> None:
        """Start the clocks; jobs that are due at the start run once now."""
        for job in self._jobs:
            callback = PeriodicCallback(lambda job=job: self._tick(job), job.every)  # type: ignore[misc]
            callback.start()
            self._callbacks.append(callback)
            if job.is_due_at_start:
                self._begin(job)

    async def stop(self) -> None:
        """Stop the clocks and let what is under way end."""
        for callback in self._callbacks:
            callback.stop()
        for task, job in self._under_way.items():
            if job.is_cut_at_stop:
                task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _begin(self, job: Job) -> None:
        task = asyncio.create_task(self._tick(job), name=job.name)
        self._under_way[task] = job
        task.add_done_callback(self._under_way.pop)

    async def _tick(self, job: Job) -> None:
        try:
            await job.run()
        except Refusal as refusal:  # the database is away, say: the next tick tries again
            log.warning("%s was put off: %s", job.name, refusal.code)
        except Exception as error:
            log.error("%s failed: %s", job.name, describe_exception(error))
