"""Lease in the database that lets one process at a time run the sync."""

import time
from datetime import timedelta
from typing import Any, Final

from peewee import Database

from regsvc.database.lease import TaskLease
from regsvc.database.models import Lease

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
