"""What the last completed run saw of AuthMe's table: by it, a run finds what changed since without reading the table.

It moves only when a run has done all it had to do. A bucket in which something is left is stored as one that no table
can have, so that the next run looks at it again whatever it holds.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from peewee import Database, fn

from plugin_bridge.authme.players import Players
from plugin_bridge.authme.table_checksums import EMPTY, LOWER_HALF, Bucket, SharedTable, StoredChecksums, Totals
from regsvc import __version__
from regsvc.database.bulk import execute_many
from regsvc.database.models import DigestBucket, SyncState
from regsvc.sync.records import Policy

FULL_EVERY: Final = timedelta(days=1)
"""How old the last look at every row may be."""
_UNSETTLED: Final = Bucket(-1, 0)
_STAGED: Final = -2
"""A bucket of n rows that is laid aside stands there as one of -2 - n."""
_WRITTEN_AT_ONCE: Final = 2_000
_TRANSACTION: Final = timedelta(seconds=10)
"""How long before its commit a moment of ours may have been written down."""


@dataclass(frozen=True)
class TableChanges:
    """AuthMe's table at the beginning of a run. `total` rows; `changed` buckets since the last completed run."""

    total: int
    changed: Mapping[int, Bucket]
    before: Mapping[int, int]
    """How many rows those of them had whose rows were settled."""
    version: object | None
    is_whole: bool
    """Whether every name is to be looked at, and not only those of the changed buckets."""
    since: datetime | None = None
    """Whose state changed before it was in its bucket when that was stored; None: this process does not know."""
    is_staged: bool = False
    """Whether all buckets stand in our table already, each as one that no table can have."""


class Digest(StoredChecksums):
    """The stored digest and its circumstances. Blocking."""

    table = "regsvc_digest"

    def __init__(self, database: Database, players: Players) -> None:
        self._database = database
        self._players = players
        self._settled_version: object | None = None
        self._settled_total = 0
        self._began_at: datetime | None = None

    def load(self) -> dict[int, Bucket]:
        cursor = self._database.execute_sql(f"SELECT bucket, row_count, checksum FROM {self.table}")  # noqa: S608
        return {number: Bucket(row_count, checksum) for number, row_count, checksum in cursor}

    def totals(self) -> Totals | None:
        checksums = fn.COALESCE(fn.SUM(DigestBucket.checksum.bin_and(LOWER_HALF)), 0)
        rows, least = fn.COALESCE(fn.SUM(DigestBucket.row_count), 0), fn.COALESCE(fn.MIN(DigestBucket.row_count), 0)
        found: Any = DigestBucket.select(rows, checksums, least).tuples().get()
        return Totals(int(found[0]), int(found[1])) if found[2] >= 0 else None

    def is_empty(self) -> bool:
        """Whether the last completed run saw no row, or there was none."""
        return not DigestBucket.select().exists()

    def look(self, *, is_whole: bool, may_write: bool = True) -> TableChanges:
        """What AuthMe's table is now, compared with what is stored. Raises `PlayersUnavailable`."""
        version = self._players.version()
        if version is not None and version == self._settled_version:
            return TableChanges(self._settled_total, {}, {}, version, is_whole)
        table = self._players.shared_table() if is_whole and may_write else None
        if table is not None:
            return TableChanges(self._lay_aside(table), {}, {}, version, is_whole, is_staged=True)
        changed = self._players.changed_buckets(self)
        total, before = self._compare(changed)
        since = self._began_at - _TRANSACTION if self._began_at is not None else None
        return TableChanges(total, changed, before, version, is_whole, since)

    def keep(self, seen: TableChanges, left: Collection[int], began_at: datetime) -> None:
        """A run that `began_at` is done: what it saw is the new digest, but for buckets in which something is `left`.

        Runs in the caller's transaction.
        """
        if seen.is_staged:
            DigestBucket.delete().where(DigestBucket.row_count == _UNSETTLED.row_count).execute()
            laid_aside = DigestBucket.row_count < _UNSETTLED.row_count
            DigestBucket.update(row_count=_STAGED - DigestBucket.row_count).where(laid_aside).execute()
        settled = {number: bucket for number, bucket in seen.changed.items() if number not in left}
        gone = [number for number, bucket in settled.items() if bucket == EMPTY]
        self._write({number: bucket for number, bucket in settled.items() if bucket != EMPTY})
        self._write(dict.fromkeys(left, _UNSETTLED))
        for start in range(0, len(gone), _WRITTEN_AT_ONCE):
            DigestBucket.delete().where(DigestBucket.bucket.in_(gone[start : start + _WRITTEN_AT_ONCE])).execute()
        self._settled_version, self._settled_total = (None if left else seen.version), seen.total
        self._began_at = began_at

    def forget(self) -> None:
        """Nobody knows any more what this process saw last."""
        self._settled_version = self._began_at = None

    def _lay_aside(self, table: SharedTable) -> int:
        """What AuthMe's table is now, stored without a row of it coming here; comes back with how many rows it has.

        Should the run not come to its end, every bucket is unsettled, and the next one looks at all of them.
        """
        DigestBucket.update(row_count=_UNSETTLED.row_count).execute()
        self._players.execute_shared(
            f"REPLACE INTO {self.table} (bucket, row_count, checksum) "  # noqa: S608
            f"SELECT bucket, {_STAGED} - row_count, checksum FROM ({table.checksums_by_bucket}) now"
        )
        total = fn.COALESCE(fn.SUM(_STAGED - DigestBucket.row_count), 0)
        laid_aside = DigestBucket.row_count < _UNSETTLED.row_count
        return int(DigestBucket.select(total).where(laid_aside).scalar())

    def _compare(self, changed: Mapping[int, Bucket]) -> tuple[int, dict[int, int]]:
        """How many rows there are now, and how many these buckets had before."""
        stored = int(DigestBucket.select(fn.COALESCE(fn.SUM(DigestBucket.row_count), 0)).scalar())
        total = stored + sum(bucket.row_count for bucket in changed.values())
        before, numbers = dict.fromkeys(changed, 0), list(changed)
        for start in range(0, len(numbers), _WRITTEN_AT_ONCE):
            page = DigestBucket.bucket.in_(numbers[start : start + _WRITTEN_AT_ONCE])
            rows: Any = DigestBucket.select(DigestBucket.bucket, DigestBucket.row_count).where(page)
            for number, row_count in rows.tuples():
                total -= row_count
                before[number] = row_count
        return total, {number: row_count for number, row_count in before.items() if row_count >= 0}

    def _write(self, buckets: Mapping[int, Bucket]) -> None:
        sql = f"REPLACE INTO {self.table} (bucket, row_count, checksum) VALUES (?, ?, ?)"  # noqa: S608
        rows = [(number, *bucket) for number, bucket in sorted(buckets.items())]
        for start in range(0, len(rows), _WRITTEN_AT_ONCE):
            execute_many(self._database, sql, rows[start : start + _WRITTEN_AT_ONCE])


class UserTally(NamedTuple):
    """How many users there are, the sum of their ids, and the newest user with a player.

    Ids are never used twice: while all three stay, nobody was deleted who has a player. On SQLite, where a trigger
    tells, all are 0.
    """

    user_count: int
    ids: int
    newest_id: int


@dataclass(frozen=True)
class RunInputs:
    """Under which a run decides; others than before mean that names may be decided otherwise, though no row changed."""

    policy: str
    operators: frozenset[str]
    users: UserTally

    @classmethod
    def find(cls) -> tuple["RunInputs", datetime] | None:
        """Those of the last completed run, and when every row was last looked at; None before the first."""
        row = SyncState.get_or_none(SyncState.id == 1)
        if row is None:
            return None
        operators = frozenset(row.operators.split("\n")) - {""}
        users = UserTally(row.user_count, row.user_ids, row.newest_id)
        return cls(row.policy, operators, users), row.compared_at

    def keep(self, compared_at: datetime) -> None:
        """Runs in the caller's transaction."""
        values = {
            "id": 1,
            "policy": self.policy,
            "operators": "\n".join(sorted(self.operators)),
            "user_count": self.users.user_count,
            "user_ids": self.users.ids,
            "newest_id": self.users.newest_id,
            "compared_at": compared_at,
        }
        query: Any = SyncState.replace(values)  # type: ignore[no-untyped-call]
        query.execute()


def fingerprint(policy: Policy) -> str:
    """Another one for another config, or another version of this program."""
    said = {
        name: sorted(value) if isinstance(value, frozenset) else str(value) for name, value in asdict(policy).items()
    }
    return hashlib.sha256(f"{__version__} {sorted(said.items())}".encode()).hexdigest()
