"""Which process among those sharing a database may run the sync: a lease in the database, by the database's clock."""

import hashlib
import os
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from peewee import SQL, Database, SqliteDatabase

from regsvc.database.models import Lease

_NAME: Final = "sync"
LEASE: Final = timedelta(seconds=30)
RENEW: Final = timedelta(seconds=10)


def place_of(state_dir: Path) -> str:
    """Names the machine and the state directory that a process works for; fits the lease's column with a process id."""
    where = f"{socket.gethostname()}:{state_dir.resolve()}"
    return hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:32]


class SyncLease:
    """Lets one process among those sharing the database run the sync. Blocking; never inside a transaction."""

    def __init__(self, database: Database, place: str, process_id: int | None = None) -> None:
        """`place` is ours alone among those that run (`place_of`): a process of it that is gone was our predecessor."""
        self._is_sqlite = isinstance(database, SqliteDatabase)
        self._place = place
        self._holder = f"{place}:{process_id or os.getpid()}"
        self._renewed_at = 0.0  # on this machine's own clock, which only says when to renew

    def take(self) -> bool:
        """Whether the lease is ours now. A predecessor that died has lost it at once, anybody else when it is over."""
        attempted_at = time.monotonic()
        lease = Lease.get_or_none(Lease.name == _NAME)
        if lease is None:
            Lease.insert(name=_NAME, holder=self._holder, expires_at=self._in(0)).on_conflict_ignore().execute()
        is_free = (Lease.expires_at <= self._in(0)) | (Lease.holder == self._holder)
        if lease is not None and self._is_gone(lease.holder):
            is_free = is_free | (Lease.holder == lease.holder)
        query = Lease.update(holder=self._holder, expires_at=self._in(LEASE.seconds))
        is_taken = bool(query.where((Lease.name == _NAME) & is_free).execute())
        if is_taken:
            self._renewed_at = attempted_at
        return is_taken

    def renew(self) -> bool:
        """Keep the lease while the run goes on; False when it was over and somebody else has it."""
        return time.monotonic() - self._renewed_at < RENEW.total_seconds() or self.take()

    def give_back(self) -> None:
        """Let the next one have it at once."""
        mine = (Lease.name == _NAME) & (Lease.holder == self._holder)
        Lease.update(expires_at=self._in(0)).where(mine).execute()

    def _in(self, seconds: int) -> SQL:
        """So many seconds from now by the database's clock, as our tables write a moment."""
        if self._is_sqlite:
            return SQL(f"strftime('%Y-%m-%d %H:%M:%f', 'now', '+{seconds} seconds')")
        return SQL(f"(UTC_TIMESTAMP(3) + INTERVAL {seconds} SECOND)")

    def _is_gone(self, holder: str) -> bool:
        place, _colon, process_id = holder.rpartition(":")
        if place != self._place or not process_id.isdigit():
            return False
        try:
            os.kill(int(process_id), 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # there is one, somebody else's
            return False
        return False
