"""Leases in the database: tasks that one process at a time may do, timed by the database's clock."""

import hashlib
import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Final

from peewee import SQL, Database, SqliteDatabase

from regsvc.database.models import Lease

_MACHINE_ID: Final = Path("/etc/machine-id")


def instance_id(state_dir: Path, name: str = "") -> str:
    """Return an id for this machine and state directory; with a process id appended it fits the lease's column.

    Machines and containers may have one host name and one path of their state directories: their machine's id and the
    directory's inode tell them apart. `name` (`server.instance`) is put before it, for people.
    """
    directory = state_dir.resolve()
    where = f"{socket.gethostname()}:{_machine_id()}:{_inode(directory)}:{directory}"
    digest = hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return f"{name}/{digest}" if name else digest


def _machine_id() -> str:
    try:
        return _MACHINE_ID.read_text("utf-8").strip()
    except (OSError, ValueError):  # none, as in a container
        return ""


def _inode(directory: Path) -> str:
    try:
        found = directory.stat()
    except OSError:  # not made yet
        return ""
    return f"{found.st_dev}.{found.st_ino}"


class TaskLease:
    """Lease that lets one of the processes that share a database do a task. Blocking; never inside a transaction."""

    def __init__(
        self, database: Database, name: str, period: timedelta, instance: str, process_id: int | None = None
    ) -> None:
        """`instance` (`instance_id`) is unique among running daemons: a dead holder with this id preceded us.

        `period`: how long it is held, unless it is acquired again.
        """
        self._is_sqlite = isinstance(database, SqliteDatabase)
        self._name = name
        self._period = period
        self._instance = instance
        self._holder = f"{instance}:{process_id or os.getpid()}"

    def acquire(self) -> bool:
        """Try to take the lease, or to extend it, and return whether it is ours.

        A dead predecessor's lease is taken over at once, another process's only after it has expired. One that ends
        later than any could is from before the database's clock was set back, and counts as expired.
        """
        lease = Lease.get_or_none(Lease.name == self._name)
        if lease is None:
            Lease.insert(name=self._name, holder=self._holder, expires_at=self._in(0)).on_conflict_ignore().execute()
        is_impossible = Lease.expires_at > self._in(2 * self._period.seconds)  # the clocks of a cluster's nodes differ
        is_free = (Lease.expires_at <= self._in(0)) | is_impossible | (Lease.holder == self._holder)
        if lease is not None and self._is_dead(lease.holder):
            is_free = is_free | (Lease.holder == lease.holder)
        query = Lease.update(holder=self._holder, expires_at=self._in(self._period.seconds))
        return bool(query.where((Lease.name == self._name) & is_free).execute())

    def remove(self) -> None:
        """End the lease and leave no trace of it."""
        Lease.delete().where((Lease.name == self._name) & (Lease.holder == self._holder)).execute()

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
