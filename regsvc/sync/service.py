"""Scheduling of sync runs, one at a time: callers in this process share a run, processes share a lease."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, TextIO, TypeVar

from regsvc.allowlist.run import AllowlistRunner, ListReport
from regsvc.core.errors import Refusal, SyncRunning
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.database.engine import Worker
from regsvc.sync.lease import SyncLease
from regsvc.sync.report import SyncReport
from regsvc.sync.run import SyncRunner

log = logging.getLogger(__name__)

_BUSY_AFTER: Final = 0.001
"""Seconds that a busy event loop needs to answer; an idle one needs a tenth of it."""
_REST: Final = 0.75
"""Rest after a page, as a share of the time it took."""
_LONGEST_REST: Final = 0.5
_UNDISTURBED: Final = 1.0
"""Seconds before the first rest of a run: rests would make up half of the time of a usual one."""
_STILL_AFTER: Final = timedelta(minutes=10)
_MAX_SKIPPED: Final = 9
"""Ticks in a row that may be left to another daemon: health and metrics come from this process's own runs."""

T = TypeVar("T", SyncReport, ListReport)


def stands_still(seconds_since_run: float, every: timedelta) -> bool:
    """Return whether the sync has not run for so long that something is wrong."""
    return seconds_since_run > max(_STILL_AFTER, 10 * every).total_seconds()


class SyncService:
    """Entry point of the sync for the API, the scheduled job and the command line."""

    def __init__(
        self,
        worker: Worker,
        runner: SyncRunner,
        lease: SyncLease,
        allowlist: AllowlistRunner | None = None,
        wait: timedelta = timedelta(seconds=30),
    ) -> None:
        """`worker` is the sync's own thread; `wait` limits the wait for another process's run."""
        self._allowlist = allowlist
        self._worker = worker
        self._runner = runner
        self._lease = lease
        self._wait = wait
        self._running: asyncio.Task[SyncReport] | None = None
        self._next: asyncio.Task[SyncReport] | None = None
        self.on_finished: Callable[[SyncReport], None] = lambda report: None
        self.on_list_finished: Callable[[ListReport], None] = lambda report: None
        """Called after a run of the allowlist that followed a decision."""
        self.before_run: Callable[[], object] = lambda: None
        """Called before a run, on its thread."""
        self.last_report: SyncReport | None = None
        self._skipped = 0
        self._ran_at = time.monotonic()
        self._every = timedelta()
        self._is_stopping = False
        self._turn = asyncio.Lock()
        """Held by who holds the lease in this process."""
        self._list_work = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began_at = self._resumed_at = 0.0

    @property
    def seconds_since_run(self) -> float:
        """Seconds since the last run ended, here or on another daemon, or since the start; no clock change counts."""
        return time.monotonic() - self._ran_at

    @property
    def list_report(self) -> ListReport | None:
        """Report of the allowlist's last run; None before the first, and where it is not kept."""
        is_kept = self._allowlist is not None and self._allowlist.is_on()
        return self._allowlist.last_report if self._allowlist is not None and is_kept else None

    @property
    def has_held_back_changes(self) -> bool:
        """Whether changes of any gate wait for a person."""
        report, listed = self.last_report, self.list_report
        return (report is not None and report.held_back is not None) or (listed is not None and bool(listed.held_back))

    @property
    def stands_still(self) -> bool:
        """Whether `last_report` is too old to tell how things are."""
        return stands_still(self.seconds_since_run, self._every)

    async def run(self) -> SyncReport:
        """Wait for a run in progress, then share one that began after this call. Raises `SyncRunning`."""
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._running))
        return await asyncio.shield(self._next)

    async def run_if_due(self, every: timedelta) -> SyncReport | None:
        """Run unless another daemon has done so within this period; then return None. Raises `SyncRunning`."""
        self._every = every
        may_skip = self.last_report is not None and self._skipped < _MAX_SKIPPED
        if may_skip and await self._worker.run(self._lease.may_skip, every):
            self._skipped += 1
            self._ran_at = time.monotonic()
            return None
        self._skipped = 0
        return await self.run()

    async def plan(self) -> SyncReport:
        """Return the report of what a run would do, without doing it."""
        return await self._worker.run(self._plan)

    def run_alone(
        self, *, allow_mass_changes: bool, is_full: bool = False, terminal: TextIO | None = None
    ) -> SyncReport:
        """Run for the command line, on the calling thread. Raises `SyncRunning` while another process runs the sync.

        `is_full` compares every row; `terminal` shows the progress of a long run.
        """
        self._runner.terminal = terminal
        return self._worker.run_here(self._run_alone, allow_mass_changes, is_full)

    def plan_alone(
        self, *, allow_mass_changes: bool, is_full: bool, max_names: int, terminal: TextIO | None = None
    ) -> SyncReport:
        """Plan for the command line, on the calling thread; `max_names` of each kind of change are reported."""
        self._runner.terminal = terminal
        plan = partial(self._plan, is_full=is_full, max_names=max_names)
        return self._worker.run_here(plan, allow_mass_changes=allow_mass_changes)

    def _plan(self, *, allow_mass_changes: bool = False, is_full: bool = False, max_names: int = 0) -> SyncReport:
        options: dict[str, Any] = {"is_plan": True, "allow_mass_changes": allow_mass_changes}
        report = self._runner.run(is_full=is_full, max_names=max_names, **options)
        if self._allowlist is not None and self._allowlist.is_on():
            report.allowlist = self._allowlist.run(**options)
        return report

    def _run_alone(self, allow_mass_changes: bool, is_full: bool) -> SyncReport:
        deadline = time.monotonic() + self._wait.total_seconds()
        while not self._lease.acquire():
            if time.monotonic() > deadline:
                raise SyncRunning
            time.sleep(0.5)
        return self.run_here(allow_mass_changes=allow_mass_changes, is_full=is_full)

    async def stop(self) -> None:
        """Stop the run in progress after its current page, and wait for it."""
        self._is_stopping = True
        self._list_work.set()
        for task in (self._next, self._running):
            if task is not None:
                await asyncio.gather(task, return_exceptions=True)

    async def _run_after(self, running: asyncio.Task[SyncReport] | None) -> SyncReport:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        self._loop = asyncio.get_running_loop()
        report = await self._run_in_turn(self.run_here)
        self.last_report = report
        self._ran_at = time.monotonic()
        self.on_finished(report)
        return report

    async def _run_in_turn(self, run: Callable[[], T]) -> T:
        """Wait for the lease, and run with it; `run` releases it. Raises `SyncRunning`."""

        def run_if_free() -> T | None:
            return run() if self._lease.acquire() else None

        loop = asyncio.get_running_loop()
        async with self._turn:
            deadline = loop.time() + self._wait.total_seconds()
            while (report := await self._worker.run(run_if_free)) is None:
                if self._is_stopping or loop.time() > deadline:
                    raise SyncRunning
                await asyncio.sleep(0.5)
        return report

    def run_here(self, *, allow_mass_changes: bool = False, is_full: bool = False) -> SyncReport:
        """Run on the calling thread, which holds the lease, and release it."""
        self._began_at = self._resumed_at = time.monotonic()
        is_done = False
        try:
            self.before_run()
            report = self._runner.run(is_full=is_full, allow_mass_changes=allow_mass_changes, may_go_on=self._may_go_on)
            is_done = report.is_complete and report.unavailable is None
            if self._allowlist is not None and report.is_complete:
                self._run_allowlist(report, allow_mass_changes=allow_mass_changes)
            return report
        finally:
            self._lease.release(is_done=is_done)

    def wake_allowlist(self) -> None:
        """Let the allowlist follow a decision soon. Called on any thread; does nothing before `follow_decisions`."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._list_work.set)

    async def follow_decisions(self) -> None:
        """Run the allowlist each time it is woken, until `stop`. A run that fails is repeated by the next sync run."""
        self._loop = asyncio.get_running_loop()
        while self._allowlist is not None and not self._is_stopping:
            await self._list_work.wait()
            self._list_work.clear()
            try:
                if not self._is_stopping and await self._worker.run(self._allowlist.is_due):
                    self.on_list_finished(await self._run_in_turn(self._run_allowlist_here))
            except Refusal as refusal:
                log.warning("the allowlist follows with the next sync run: %s", refusal.code)
            except Exception as error:
                log.error("the allowlist could not follow a decision: %s", locate_exception(error))
                log.info("for a bug report about the allowlist: %s", describe_exception(error))

    def _run_allowlist_here(self) -> ListReport:
        assert self._allowlist is not None
        try:
            return self._allowlist.run()
        finally:
            self._lease.release(is_done=False)

    def _run_allowlist(self, report: SyncReport, *, allow_mass_changes: bool) -> None:
        """Let the game's allowlist follow what the run has changed, and take over what was changed in the game."""
        assert self._allowlist is not None
        if (allow_mass_changes and self._allowlist.is_on()) or self._allowlist.is_due():
            report.allowlist = self._allowlist.run(allow_mass_changes=allow_mass_changes)

    def _may_go_on(self) -> bool:
        self._give_way()
        return not self._is_stopping and self._lease.renew()

    def _give_way(self) -> None:
        """Rest after a page while the event loop has requests to answer: both need the interpreter."""
        asked_at, is_answered = time.monotonic(), threading.Event()
        if self._loop is None or asked_at - self._began_at < _UNDISTURBED:
            self._resumed_at = asked_at
            return
        self._loop.call_soon_threadsafe(is_answered.set)
        is_answered.wait(_LONGEST_REST)
        if time.monotonic() - asked_at > _BUSY_AFTER:
            time.sleep(min((asked_at - self._resumed_at) * _REST, _LONGEST_REST))
        self._resumed_at = time.monotonic()
