"""Lease in the database that lets one process at a time run the sync, timed by the database's clock."""

import hashlib
import os
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from peewee import SQL, Database, SqliteDatabase

from regsvc.database.models import Lease

_NAME: Final = "sync"
LEASE: Final = timedelta(seconds=30)
RENEW: Final = timedelta(seconds=10)
_SKIPPED: Final = "sync skipped"
_DONE: Final = ":done"
"""In place of a process id: the lease ended with a completed run."""


def instance_id(state_dir: Path) -> str:
    """Return an id for this machine and state directory; with a process id appended it fits the lease's column."""
    where = f"{socket.gethostname()}:{state_dir.resolve()}"
    return hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:32]


class SyncLease:
    """Lease that lets one of the processes that share a database run the sync. Blocking; never inside a transaction."""

    def __init__(self, database: Database, instance: str, process_id: int | None = None) -> None:
        """`instance` (`instance_id`) is unique among running daemons: a dead holder with this id preceded us."""
        self._is_sqlite = isinstance(database, SqliteDatabase)
        self._instance = instance
        self._holder = f"{instance}:{process_id or os.getpid()}"
        self._renewed_at = 0.0  # by this machine's own clock, which only decides when to renew

    def acquire(self) -> bool:
        """Try to take the lease and return whether it is ours.

        A dead predecessor's lease is taken over at once, another process's only after it has expired.
        """
        attempted_at = time.monotonic()
        lease = Lease.get_or_none(Lease.name == _NAME)
        if lease is None:
            Lease.insert(name=_NAME, holder=self._holder, expires_at=self._in(0)).on_conflict_ignore().execute()
        is_free = (Lease.expires_at <= self._in(0)) | (Lease.holder == self._holder)
        if lease is not None and self._is_dead(lease.holder):
            is_free = is_free | (Lease.holder == lease.holder)
        query = Lease.update(holder=self._holder, expires_at=self._in(LEASE.seconds))
        is_acquired = bool(query.where((Lease.name == _NAME) & is_free).execute())
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

    def may_skip(self, period: timedelta) -> bool:
        """Return whether another daemon completed the last run within this period.

        If so, it is recorded that this daemon works as well: moving the database requires that all others have stopped.
        """
        is_recent = Lease.expires_at > self._in(-round(period.total_seconds()))
        lease = Lease.get_or_none((Lease.name == _NAME) & is_recent)
        if lease is None or not lease.holder.endswith(_DONE) or lease.holder == self._instance + _DONE:
            return False
        values = {"name": _SKIPPED, "holder": self._holder, "expires_at": self._in(0)}
        query: Any = Lease.replace(values)  # type: ignore[no-untyped-call]
        query.execute()
        return True

    def _in(self, seconds: int) -> SQL:
        """Return SQL for a moment this many seconds from now by the database's clock, in our tables' format."""
        if self._is_sqlite:
            return SQL(f"strftime('%Y-%m-%d %H:%M:%f', 'now', '{seconds:+d} seconds')")
        return SQL(f"(UTC_TIMESTAMP(3) + INTERVAL {seconds} SECOND)")

    def _is_dead(self, holder: str) -> bool:
        instance, _colon, process_id = holder.rpartition(":")
        if instance != self._instance or not process_id.isdigit():
            return False
        try:
            os.kill(int(process_id), 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # the process exists and belongs to another user
            return False
        return False
