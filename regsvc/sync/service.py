"""One run at a time: in the process by sharing, among processes by a lease in the database."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from datetime import timedelta

from peewee import Database, IntegrityError

from regsvc.clock import Clock
from regsvc.db import Worker
from regsvc.errors import SyncRunning
from regsvc.models import Lease
from regsvc.sync.report import SyncReport
from regsvc.sync.run import Sync

_LEASE = timedelta(seconds=30)
_RENEW = timedelta(seconds=10)


class SyncLease:
    """Lets one process among those sharing the database run the sync."""

    def __init__(self, database: Database, now: Clock, process: str | None = None) -> None:
        """`process` names this one; a process of the same machine that is gone loses its lease at once."""
        self._database = database
        self._now = now
        self._holder = process or f"{socket.gethostname()[:50]}:{os.getpid()}"
        self._renewed_at = now()

    def take(self) -> bool:
        """Whether the lease is ours now."""
        moment = self._now()
        with self._database.atomic():
            try:
                with self._database.atomic():
                    Lease.insert(name="sync", holder=self._holder, expires_at=moment).execute()
            except IntegrityError:
                pass  # there is one already; the next statement decides whose it is
            holder = Lease.get_by_id("sync").holder
            is_free = (Lease.expires_at <= moment) | (Lease.holder == self._holder)
            if self._is_gone(holder):
                is_free = is_free | (Lease.holder == holder)
            taken = (
                Lease.update(holder=self._holder, expires_at=moment + _LEASE)
                .where((Lease.name == "sync") & is_free)
                .execute()
            )
        self._renewed_at = moment
        return bool(taken)

    def renew(self) -> None:
        """Keep the lease while the run goes on."""
        if self._now() - self._renewed_at >= _RENEW:
            self.take()

    def give_back(self) -> None:
        """Let the next one have it at once."""
        Lease.update(expires_at=self._now()).where((Lease.name == "sync") & (Lease.holder == self._holder)).execute()

    def _is_gone(self, holder: str) -> bool:
        machine, _colon, pid = holder.rpartition(":")
        if machine != self._holder.rpartition(":")[0] or not pid.isdigit():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


class SyncService:
    """What the API, the clock and the command line call."""

    def __init__(self, worker: Worker, sync: Sync, lease: SyncLease, wait: timedelta = timedelta(seconds=30)) -> None:
        """`worker` is one thread kept for the sync; `wait` is how long another process's run is waited for."""
        self._worker = worker
        self._sync = sync
        self._lease = lease
        self._wait = wait
        self._running: asyncio.Task[SyncReport] | None = None
        self._next: asyncio.Task[SyncReport] | None = None
        self.on_finished: Callable[[SyncReport], None] = lambda report: None
        self.last_report: SyncReport | None = None
        self._is_stopping = False

    async def run(self) -> SyncReport:
        """Wait for a run in flight, then share one that began after this call. Raises `SyncRunning`."""
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._running))
        return await asyncio.shield(self._next)

    async def plan(self) -> SyncReport:
        """What a run would do, without doing it."""
        return await self._worker.run(self._sync.run, is_plan=True)

    def run_alone(self, *, is_plan: bool, allow_mass_changes: bool) -> SyncReport:
        """A run for the command line, on the calling thread. Raises `SyncRunning` while another process has one."""
        return self._worker.run_here(self._run_alone, is_plan, allow_mass_changes)

    def _run_alone(self, is_plan: bool, allow_mass_changes: bool) -> SyncReport:
        if is_plan:
            return self._sync.run(is_plan=True, allow_mass_changes=allow_mass_changes)
        deadline = time.monotonic() + self._wait.total_seconds()
        while not self._lease.take():
            if time.monotonic() > deadline:
                raise SyncRunning
            time.sleep(0.5)
        return self.run_here(allow_mass_changes=allow_mass_changes)

    async def stop(self) -> None:
        """Let the run in flight end at its next page."""
        self._is_stopping = True
        for task in (self._next, self._running):
            if task is not None:
                await asyncio.gather(task, return_exceptions=True)

    async def _run_after(self, running: asyncio.Task[SyncReport] | None) -> SyncReport:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        deadline = asyncio.get_running_loop().time() + self._wait.total_seconds()
        while not await self._worker.run(self._lease.take):
            if self._is_stopping or asyncio.get_running_loop().time() > deadline:
                raise SyncRunning
            await asyncio.sleep(0.5)
        report = await self._worker.run(self.run_here)
        self.last_report = report
        self.on_finished(report)
        return report

    def run_here(self, *, allow_mass_changes: bool = False) -> SyncReport:
        """The run itself, on the calling thread; the lease is ours."""
        try:
            return self._sync.run(allow_mass_changes=allow_mass_changes, may_go_on=self._may_go_on)
        finally:
            self._lease.give_back()

    def _may_go_on(self) -> bool:
        self._lease.renew()
        return not self._is_stopping
