"""Digest of AuthMe's table as the last completed run saw it, by which a run finds changes without reading the table.

It is stored only when a run has gone over all candidates. Buckets with unfinished work are stored with an impossible
row count (-1), so that the next run always looks at them again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import Database, fn

from plugin_bridge.authme.players import Players
from plugin_bridge.authme.table_checksums import EMPTY, LOWER_HALF, Bucket, StoredChecksums, Totals
from regsvc.database.bulk import execute_many
from regsvc.database.models import DigestBucket
from regsvc.sync.accounts_loader import pages_of

FULL_EVERY: Final = timedelta(days=1)
"""Longest time between two runs that look at every row."""
_UNFINISHED: Final = Bucket(-1, 0)
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


class TableDigest(StoredChecksums):
    """The stored digest. Blocking."""

    table = "regsvc_bucket"

    def __init__(self, database: Database, players: Players) -> None:
        self._database = database
        self._players = players
        self._stored_version: object | None = None
        self._stored_total = 0
        self._began_at: datetime | None = None

    def load(self) -> dict[int, Bucket]:
        """Return the stored buckets by number."""
        cursor = self._database.execute_sql(f"SELECT bucket, row_count, checksum FROM {self.table}")  # noqa: S608
        return {number: Bucket(row_count, checksum) for number, row_count, checksum in cursor}

    def totals(self) -> Totals | None:
        """Return the sums over all stored buckets, or None while one has unfinished work."""
        checksums = fn.COALESCE(fn.SUM(DigestBucket.checksum.bin_and(LOWER_HALF)), 0)
        rows, least = fn.COALESCE(fn.SUM(DigestBucket.row_count), 0), fn.COALESCE(fn.MIN(DigestBucket.row_count), 0)
        found: Any = DigestBucket.select(rows, checksums, least).tuples().get()
        return Totals(int(found[0]), int(found[1])) if found[2] >= 0 else None

    def is_empty(self) -> bool:
        """Return whether the last completed run saw no row, or there was no run yet."""
        return not DigestBucket.select().exists()

    def compare(self, *, is_full: bool) -> TableChanges:
        """Compare AuthMe's table with the stored digest. Raises `PlayersUnavailable`."""
        version = self._players.version()
        if version is not None and version == self._stored_version:
            return TableChanges(self._stored_total, {}, {}, version, is_full)
        changed = self._players.changed_buckets(self)
        total, before = self._compare(changed)
        since = self._began_at - _COMMIT_TIME if self._began_at is not None else None
        open_locks = [] if is_full else self._players.find_open_locks()
        return TableChanges(total, changed, before, version, is_full, since, open_locks)

    def store(self, changes: TableChanges, unfinished: Collection[int], began_at: datetime) -> None:
        """Store what a completed run saw when it began, with the buckets in `unfinished` marked as such.

        Runs in the caller's transaction.
        """
        finished = {number: bucket for number, bucket in changes.changed.items() if number not in unfinished}
        gone = [number for number, bucket in finished.items() if bucket == EMPTY]
        self._write({number: bucket for number, bucket in finished.items() if bucket != EMPTY})
        self._write(dict.fromkeys(unfinished, _UNFINISHED))
        for numbers in pages_of(gone, _BATCH):
            DigestBucket.delete().where(DigestBucket.bucket.in_(numbers)).execute()
        self._stored_version, self._stored_total = (None if unfinished else changes.version), changes.total
        self._began_at = began_at

    def _compare(self, changed: Mapping[int, Bucket]) -> tuple[int, dict[int, int]]:
        """Return the number of rows now, and the former row counts of these buckets as far as they were finished."""
        stored = int(DigestBucket.select(fn.COALESCE(fn.SUM(DigestBucket.row_count), 0)).scalar())
        total = stored + sum(bucket.row_count for bucket in changed.values())
        before = dict.fromkeys(changed, 0)
        for numbers in pages_of(list(changed), _BATCH):
            buckets = DigestBucket.select(DigestBucket.bucket, DigestBucket.row_count)
            rows: Any = buckets.where(DigestBucket.bucket.in_(numbers))
            for number, row_count in rows.tuples():
                total -= row_count
                before[number] = row_count
        return total, {number: row_count for number, row_count in before.items() if row_count >= 0}

    def _write(self, buckets: Mapping[int, Bucket]) -> None:
        sql = f"REPLACE INTO {self.table} (bucket, row_count, checksum) VALUES (?, ?, ?)"  # noqa: S608
        for rows in pages_of([(number, *bucket) for number, bucket in sorted(buckets.items())], _BATCH):
            execute_many(self._database, sql, rows)
