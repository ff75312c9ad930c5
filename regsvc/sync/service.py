"""Scheduling of sync runs, one at a time: callers in this process share a run, processes share a lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from peewee import Database

from regsvc.allowlist.planning import PlannedAllowlist, PlannedUsers
from regsvc.allowlist.run import AllowlistRunner, ListReport
from regsvc.core import errors
from regsvc.core.errors import Refusal, SyncRunning
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.core.rights import Permission
from regsvc.database.engine import Worker
from regsvc.database.lease import TaskLease
from regsvc.database.models import Lease
from regsvc.http.messages import Reply
from regsvc.http.route import Routes
from regsvc.sync.report import SyncReport, SyncReportFields
from regsvc.sync.run import SyncRunner
from regsvc.users.gates import Gates

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_NAME: Final = "sync"

LEASE: Final = timedelta(seconds=30)

RENEW: Final = timedelta(seconds=10)

_SKIPPED: Final = "sync skipped"

_DONE: Final = ":done"
"""In place of a process id: the lease ended with a completed run."""


class SyncLease(TaskLease):
    """Lease that lets one of the processes that share a database run the sync. Blocking; never inside a transaction."""

    def __init__(self, database: Database, instance: str, process_id: int | None = None) -> None:
        """`instance` (`instance_id`) is unique among running daemons: a dead holder with this id preceded us."""
        super().__init__(database, _NAME, LEASE, instance, process_id)
        self._renewed_at = 0.0  # by this machine's own clock, which only decides when to renew

    def acquire(self) -> bool:
        attempted_at = time.monotonic()
        is_acquired = super().acquire()
        if is_acquired:
            self._renewed_at = attempted_at
        return is_acquired

    def renew(self) -> bool:
        """Extend the lease during a run; False when it had expired and another process holds it."""
        return time.monotonic() - self._renewed_at < RENEW.total_seconds() or self.acquire()

    def release(self, *, is_done: bool) -> None:
        """Expire the lease, so that the next process can take it at once. `is_done`: the run was completed."""
        ours = (Lease.name == _NAME) & (Lease.holder == self._holder)
        holder = self._instance + _DONE if is_done else self._holder
        Lease.update(holder=holder, expires_at=self._in(0)).where(ours).execute()

    def _is_dead(self, holder: str) -> bool:
        return holder.endswith(_DONE) or super()._is_dead(holder)

    def may_skip(self, period: timedelta) -> bool:
        """Return whether another daemon completed the last run within this period.

        If so, it is recorded that this daemon works as well: moving the database requires that all others have stopped.
        """
        is_recent = Lease.expires_at > self._in(-round(period.total_seconds()))
        is_over = Lease.expires_at <= self._in(RENEW.seconds)  # else the clock was set back since
        lease = Lease.get_or_none((Lease.name == _NAME) & is_recent & is_over)
        if lease is None or not lease.holder.endswith(_DONE) or lease.holder == self._instance + _DONE:
            return False
        values = {"name": _SKIPPED, "holder": self._holder, "expires_at": self._in(0)}
        query: Any = Lease.replace(values)  # type: ignore[no-untyped-call]
        query.execute()
        return True


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
        self.foresee: Callable[[], Mapping[str, datetime | None]] = dict
        """Called before a plan, on its thread: returns when members lapse, whose note `before_run` would change."""
        self.after_run: Callable[[SyncReport], object] = lambda report: None
        """Called after the sync's own part of a run, on its thread, before the allowlist's."""
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
        options: dict[str, Any] = {"allow_mass_changes": allow_mass_changes, "max_names": max_names}
        options["lapses"] = self.foresee()
        report = self._runner.run(is_plan=True, is_full=is_full, **options)
        if self._allowlist is not None and self._allowlist.is_on():
            planned = PlannedAllowlist(self._allowlist, report.for_list or PlannedUsers())
            report.listed = planned.run(allow_mass_changes=allow_mass_changes)
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
            self.after_run(report)
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
            report.listed = self._allowlist.run(allow_mass_changes=allow_mass_changes)

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


class SyncReply(Reply, frozen=True, kw_only=True):
    """The report of a run. `enabled` is false, and the report empty, if no gate is in force."""

    enabled: bool
    report: SyncReportFields


@ROUTES.add("POST", "/api/admin/sync", Permission.SYNC_RUN, errors.SyncRunning)
async def run_sync(call: Call, sync: SyncService, gates: Gates, *, plan: bool = False) -> SyncReply:
    """Run the sync of users with AuthMe's players and the game's allowlist now, or report what a run would do.

    SyncRequest: With `plan`, the run is only simulated.
    """
    report = await (sync.plan() if plan else sync.run())
    return SyncReply(
        message=call.message(_sync_message(report, plan) if gates.names else "sync_off"),
        enabled=bool(gates.names),
        report=report.fields(),
    )


def _sync_message(report: SyncReport, is_plan: bool) -> str:
    if is_plan:
        return "sync_planned"
    return "sync_braked" if report.has_held_back_changes else "sync_done"
