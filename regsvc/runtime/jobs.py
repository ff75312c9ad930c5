"""Periodic jobs: a name, an interval and a function each. Every job is also available as a command."""

import asyncio
import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from regsvc.core.errors import DatabaseUnavailable, Refusal
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.core.units import format_duration

log = logging.getLogger(__name__)

_STEP = 0.1
"""Seconds from the beginning of a job to that of the next, when both are due: a short one is over by then."""


@dataclass(frozen=True)
class Job:
    """A periodic job. `run` never overlaps itself: a tick during a run is skipped."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[object]]
    runs_at_start: bool = False
    cancel_on_stop: bool = False
    """Set for a job that may take long, and loses nothing when it is cancelled."""
    spread: timedelta = timedelta()
    """It starts up to so much later, at random: many daemons that start together do not run the job together."""
    look: Callable[[], object] | None = None
    """Returns something true if there is work, without which the job does not run. May block; not called while its job
    runs. Jobs of one thread have one interval.
    """
    look_thread: str = "look"
    """The thread that calls `look`: if one hangs, those on other threads go on."""


class JobRunner:
    """Runner of periodic jobs on the event loop, timed by the loop's clock: that of the machine may be set.

    All count from the same moment, each a moment after the one before it in the list: threads that begin together would
    wake each other many times, for the interpreter. Those with a `look` need none of the event loop while there is
    nothing to do.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._tasks: dict[asyncio.Task[None], Job] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._started_at = 0.0
        self._wake_ups = {job.name: asyncio.Event() for job in jobs if not job.look}
        self._looking: dict[Job, asyncio.Event] = {}  # those that wait for a look to find work
        self._failures: dict[str, str] = {}  # the last failure of each job that fails now, by its name

    def start(self) -> None:
        """Start all jobs; those with `runs_at_start` run now, and the others after their interval."""
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        for number, job in enumerate(self._jobs):
            task = asyncio.create_task(self._repeat(job, number), name=job.name)
            self._tasks[task] = job
            if job.spread or not job.runs_at_start:
                self._waiting.add(task)
        threads = {job.look_thread for job in self._jobs if job.look}
        for number, name in enumerate(threads):
            # daemon threads, since they sleep on for a moment after `stop`
            args = (loop, self._tasks, name, number / len(threads))
            threading.Thread(target=self._look, args=args, name=name, daemon=True).start()

    def run_now(self, name: str) -> None:
        """Run this job, which has no `look`, at once, or again after the run in progress. Called on the event loop."""
        self._wake_ups[name].set()

    async def stop(self) -> None:
        """Run no job again, and wait for running ones, cancelling those with `cancel_on_stop`."""
        for task, job in self._tasks.items():
            if job.cancel_on_stop or task in self._waiting:
                task.cancel()
        self._tasks, tasks = {}, self._tasks
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, job: Job, number: int) -> None:
        loop, every = asyncio.get_running_loop(), job.every.total_seconds()
        shift = min(number * _STEP, every / 10)  # a watchdog is to be on time
        task = asyncio.current_task()
        assert task is not None
        due_at = self._started_at + random.uniform(0, job.spread.total_seconds())  # noqa: S311 - jitter
        if not job.runs_at_start:
            due_at += every
        while True:
            if task in self._waiting:
                await (self._wait_for_work(job) if job.look else self._wait_until(due_at + shift, job))
                self._waiting.remove(task)
            await self._tick(job)
            if task not in self._tasks:
                return
            due_at += every * (math.floor((loop.time() - due_at) / every) + 1)  # missed ticks are left out
            self._waiting.add(task)

    async def _wait_until(self, due_at: float, job: Job) -> None:
        wake_up = self._wake_ups[job.name]
        timer = asyncio.get_running_loop().call_at(due_at, wake_up.set)
        try:
            await wake_up.wait()
        finally:
            timer.cancel()
        wake_up.clear()

    async def _wait_for_work(self, job: Job) -> None:
        found = self._looking[job] = asyncio.Event()
        await found.wait()

    def _look(self, loop: asyncio.AbstractEventLoop, tasks: object, thread: str, share: float) -> None:
        """Look for what waiting jobs have to do, on a thread of its own, until `stop` takes these tasks away.

        It begins after a share of the interval: threads that woke together would wait for each other.
        """
        jobs = [job for job in self._jobs if job.look and job.look_thread == thread]
        [every] = {job.every.total_seconds() for job in jobs}
        time.sleep(every * share)
        while True:
            for job in jobs:
                if tasks is not self._tasks:
                    return
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                    self._look_for(job, loop)
            time.sleep(every)  # unlike a wait for an event, whatever the machine's clock is set to

    def _look_for(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        if job not in self._looking:
            return
        try:
            has_work = job.look is not None and job.look()
        except Exception as error:
            loop.call_soon_threadsafe(self._log_failure, job, error)
            return
        if has_work:
            loop.call_soon_threadsafe(self._looking.pop(job).set)
        elif job.name in self._failures:
            loop.call_soon_threadsafe(self._log_success, job)

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
            self._log_success(job)

    def _log_success(self, job: Job) -> None:
        """Log a line if the job failed before."""
        if self._failures.pop(job.name, None):
            log.info("the job %s works again", job.name)

    def _log_failure(self, job: Job, error: Exception) -> None:
        """Log a line for every failure, and the whole traceback the first time."""
        cause = locate_exception(error)
        log.error("the job %s failed: %s; it is tried again in %s", job.name, cause, format_duration(job.every))
        if self._failures.get(job.name) != cause:
            log.info("for a bug report about the job %s: %s", job.name, describe_exception(error))
        self._failures[job.name] = cause
