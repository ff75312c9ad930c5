"""AuthMe's table as the last completed run saw it, by which a run finds changes without reading the table.

On a server it consists of checksums of buckets, kept in our database. On SQLite it is a hash of each row, kept in
memory, so that the first run after a start looks at every row. It is stored only when a run has gone over all
candidates. Rows or buckets with unfinished work are stored with an impossible value, so that the next run always looks
at them again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import Database

from plugin_bridge.authme.players import Players
from plugin_bridge.authme.sqlite_checksums import TableScan
from plugin_bridge.authme.table_checksums import EMPTY, Bucket
from regsvc.database.bulk import execute_many
from regsvc.database.models import StoredBucket
from regsvc.sync.account_loader import pages_of

FULL_EVERY: Final = timedelta(days=1)
"""Longest time between two runs that look at every row."""
_UNFINISHED: Final = Bucket(-1, 0)
_TABLE: Final = "regsvc_bucket"
_BATCH: Final = 2_000
_COMMIT_TIME: Final = timedelta(seconds=10)
"""Longest time between recording a moment and committing it."""


@dataclass(frozen=True)
class TableChanges:
    """AuthMe's table at the beginning of a run: `total` rows, and the buckets that changed since the last run."""

    total: int
    changed: Mapping[int, Bucket]
    row_counts_before: Mapping[int, int]
    """Former row counts of those changed buckets that had no unfinished work."""
    version: object | None
    is_full: bool
    """Whether every name is to be looked at, not only those in changed buckets."""
    since: datetime | None = None
    """A state changed before this moment is in the stored buckets; None: this process does not know."""
    open_locks: Sequence[str] = ()
    """Names of locked rows that may admit their players without a password, which no checksum covers."""
    scan: TableScan | None = None
    """The rows compared one by one, on SQLite, where there are no buckets; None if nobody wrote since the last run."""


class TableComparison:
    """Comparison with what the last completed run saw: checksums in our database, or hashes in memory. Blocking."""

    def __init__(self, database: Database, players: Players) -> None:
        self._database = database
        self._players = players
        self._scan: TableScan | None = None
        self._stored_version: object | None = None
        self._stored_total = 0
        self._began_at: datetime | None = None
        self._had_changes = False
        """Whether the last run found changed buckets, as the next one on a busy server will."""

    def is_empty(self) -> bool:
        """Return whether the last completed run saw no row, or there is nothing to compare with."""
        return not (self._scan.row_count if self._scan is not None else StoredBucket.select().exists())

    def compare(self, *, is_full: bool) -> TableChanges:
        """Compare AuthMe's table with what was kept of it. Raises `PlayersUnavailable`."""
        version = self._players.version()
        if version is not None and version == self._stored_version:
            return TableChanges(self._stored_total, {}, {}, version, is_full)
        scan = self._players.scan(self._scan)
        if scan is not None:
            is_full = is_full or self._scan is None
            locks = self._players.find_open_locks() if scan.open_locks and not is_full else []
            return TableChanges(scan.row_count, {}, {}, version, is_full, open_locks=locks, scan=scan)
        changed, total, open_locks = self._players.changed_buckets(_TABLE, expects_some=self._had_changes)
        since = self._began_at - _COMMIT_TIME if self._began_at is not None else None
        locks = self._players.find_open_locks() if open_locks and not is_full else []
        return TableChanges(total, changed, _row_counts(changed), version, is_full, since, locks)

    def store(self, changes: TableChanges, names: Collection[str]) -> None:
        """Store the changed buckets that a completed run saw, those of these unfinished names marked as such.

        Runs in the caller's transaction.
        """
        unfinished = set(self._players.buckets_of(names).values())
        finished = {number: bucket for number, bucket in changes.changed.items() if number not in unfinished}
        gone = [number for number, bucket in finished.items() if bucket == EMPTY]
        self._write({number: bucket for number, bucket in finished.items() if bucket != EMPTY})
        self._write(dict.fromkeys(unfinished, _UNFINISHED))
        for numbers in pages_of(gone, _BATCH):
            StoredBucket.delete().where(StoredBucket.bucket.in_(numbers)).execute()

    def keep(self, changes: TableChanges, names: Collection[str], began_at: datetime) -> None:
        """Keep in memory what a completed run saw when it began, once the rest is committed."""
        scan = changes.scan or self._scan
        self._scan = scan.without(names) if scan is not None else None
        self._stored_version, self._stored_total = (None if names else changes.version), changes.total
        self._began_at, self._had_changes = began_at, bool(changes.changed)

    def _write(self, buckets: Mapping[int, Bucket]) -> None:
        sql = f"REPLACE INTO {_TABLE} (bucket, row_count, checksum) VALUES (?, ?, ?)"  # noqa: S608
        for rows in pages_of([(number, *bucket) for number, bucket in sorted(buckets.items())], _BATCH):
            execute_many(self._database, sql, rows)


def _row_counts(changed: Mapping[int, Bucket]) -> dict[int, int]:
    """Return the row counts that are stored for these buckets, without unfinished ones."""
    before = dict.fromkeys(changed, 0)
    for numbers in pages_of(list(changed), _BATCH):
        buckets: Any = StoredBucket.select(StoredBucket.bucket, StoredBucket.row_count)
        before |= dict(buckets.where(StoredBucket.bucket.in_(numbers)).tuples())
    return {number: row_count for number, row_count in before.items() if row_count >= 0}
