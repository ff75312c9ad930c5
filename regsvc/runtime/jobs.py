"""Periodic jobs: a name, an interval and a function each. Every job is also available as a command."""

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
    """A periodic job. `run` never overlaps itself: a tick during a run is skipped."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[object]]
    runs_at_start: bool = False
    cancel_on_stop: bool = False
    """Set for a job that waits for other servers and loses nothing when it is cancelled."""


class JobRunner:
    """Runner of periodic jobs on the event loop."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._callbacks: list[PeriodicCallback] = []
        self._running: dict[asyncio.Task[None], Job] = {}

    def start(self) -> None:
        """Start the timers; jobs with `runs_at_start` also run once now."""
        for job in self._jobs:
            callback = PeriodicCallback(lambda job=job: self._tick(job), job.every)  # type: ignore[misc]
            callback.start()
            self._callbacks.append(callback)
            if job.runs_at_start:
                self._run_now(job)

    async def stop(self) -> None:
        """Stop the timers and wait for running jobs, cancelling those with `cancel_on_stop`."""
        for callback in self._callbacks:
            callback.stop()
        for task, job in self._running.items():
            if job.cancel_on_stop:
                task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _run_now(self, job: Job) -> None:
        task = asyncio.create_task(self._tick(job), name=job.name)
        self._running[task] = job
        task.add_done_callback(self._running.pop)

    async def _tick(self, job: Job) -> None:
        try:
            await job.run()
        except Refusal as refusal:  # for example while the database is away: the next tick tries again
            log.warning("job %s was postponed: %s", job.name, refusal.code)
        except Exception as error:
            log.error("job %s failed: %s", job.name, describe_exception(error))
