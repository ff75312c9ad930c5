"""Periodic jobs: a name, an interval and a function each. Every job is also available as a command."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tornado.ioloop import PeriodicCallback

from regsvc.core.errors import DatabaseUnavailable, Refusal
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.core.units import format_duration

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
    spread: timedelta = timedelta()
    """The timer starts up to so much later, at random: many daemons that start together do not run the job together."""


class JobRunner:
    """Runner of periodic jobs on the event loop."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._callbacks: list[PeriodicCallback] = []
        self._starting: list[asyncio.TimerHandle] = []
        self._running: dict[asyncio.Task[None], Job] = {}
        self._failures: dict[str, str] = {}  # the last failure of each job that fails now, by its name

    def start(self) -> None:
        """Start the timers; jobs with `runs_at_start` also run once then."""
        for job in self._jobs:
            if job.spread:
                delay = random.uniform(0, job.spread.total_seconds())  # noqa: S311 - jitter
                self._starting.append(asyncio.get_running_loop().call_later(delay, self._start, job))
            else:
                self._start(job)

    def _start(self, job: Job) -> None:
        callback = PeriodicCallback(lambda: self._tick(job), job.every)
        callback.start()
        self._callbacks.append(callback)
        if job.runs_at_start:
            self._run_now(job)

    async def stop(self) -> None:
        """Stop the timers and wait for running jobs, cancelling those with `cancel_on_stop`."""
        for handle in self._starting:
            handle.cancel()
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
        except DatabaseUnavailable:  # reported where the database is used; the next tick tries again
            log.debug("the job %s waits for the database", job.name)
        except Refusal as refusal:
            log.warning("the job %s was postponed: %s", job.name, refusal.code)
        except Exception as error:
            self._log_failure(job, error)
        else:
            if self._failures.pop(job.name, None):
                log.info("the job %s works again", job.name)

    def _log_failure(self, job: Job, error: Exception) -> None:
        """Log a line for every failure, and the whole traceback the first time."""
        cause = locate_exception(error)
        log.error("the job %s failed: %s; it is tried again in %s", job.name, cause, format_duration(job.every))
        if self._failures.get(job.name) != cause:
            log.info("for a bug report about the job %s: %s", job.name, describe_exception(error))
        self._failures[job.name] = cause
