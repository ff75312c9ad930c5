"""Candidates of a sync run: the names that may need something, and how changes are found."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from peewee import JOIN, Database, Field, SqliteDatabase

from plugin_bridge.authme.players import Players
from plugin_bridge.authme.table_checksums import COMPARED_FIELDS, EMPTY, Bucket, SharedTable, TableScan, name_hash
from regsvc import __version__
from regsvc.database.bulk import execute_many, select_rows
from regsvc.database.dates import is_readable
from regsvc.database.models import PRESENT, StoredBucket, SyncRecord, SyncState, User
from regsvc.sync.records import PAGE, Policy, pages_of, rows_in_order

# --- AuthMe's table as the last completed run saw it, by which a run finds changes without reading the table ---
# On a server it consists of checksums of buckets, kept in our database. On SQLite it is a hash of each row, kept in
# memory, so that the first run after a start looks at every row. It is stored only when a run has gone over all
# candidates. Rows or buckets with unfinished work are stored with an impossible value, so that the next run always
# looks at them again.


FULL_EVERY: Final = timedelta(days=1)
"""Longest time between two runs that look at every row."""

_UNFINISHED: Final = Bucket(-1, 0)

_TABLE: Final = "regsvc_bucket"

_ROWS_AT_ONCE: Final = 2_000

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
        for numbers in pages_of(gone, _ROWS_AT_ONCE):
            StoredBucket.delete().where(StoredBucket.bucket.in_(numbers)).execute()

    def keep(self, changes: TableChanges, names: Collection[str], began_at: datetime) -> None:
        """Keep in memory what a completed run saw when it began, once the rest is committed."""
        scan = changes.scan or self._scan
        self._scan = scan.without(names) if scan is not None else None
        self._stored_version, self._stored_total = (None if names else changes.version), changes.total
        self._began_at, self._had_changes = began_at, bool(changes.changed)

    def _write(self, buckets: Mapping[int, Bucket]) -> None:
        sql = f"REPLACE INTO {_TABLE} (bucket, row_count, checksum) VALUES (?, ?, ?)"  # noqa: S608
        for rows in pages_of([(number, *bucket) for number, bucket in sorted(buckets.items())], _ROWS_AT_ONCE):
            execute_many(self._database, sql, rows)


def _row_counts(changed: Mapping[int, Bucket]) -> dict[int, int]:
    """Return the row counts that are stored for these buckets, without unfinished ones."""
    before = dict.fromkeys(changed, 0)
    for numbers in pages_of(list(changed), _ROWS_AT_ONCE):
        buckets: Any = StoredBucket.select(StoredBucket.bucket, StoredBucket.row_count)
        before |= dict(buckets.where(StoredBucket.bucket.in_(numbers)).tuples())
    return {number: row_count for number, row_count in before.items() if row_count >= 0}


# --- Inputs of a sync run beside AuthMe's table ---
# Inputs of a sync run beside AuthMe's table: where they changed, names may be decided otherwise than before.


@dataclass(frozen=True)
class RunInputs:
    """Fingerprint of policy and version, and the operators, that a run decides with."""

    policy: str
    operators: frozenset[str]

    def save(self, compared_at: datetime) -> None:
        """Store them as those of the last completed run. Runs in the caller's transaction."""
        values = {"id": 1, **vars(self), "operators": "\n".join(sorted(self.operators)), "compared_at": compared_at}
        query: Any = SyncState.replace(values)  # type: ignore[no-untyped-call]
        query.execute()

    @classmethod
    def find_last(cls) -> tuple[RunInputs, datetime] | None:
        """Return those of the last completed run, and when every row was last compared; None before the first."""
        row = SyncState.get_or_none(SyncState.id == 1)
        if row is None:
            return None
        operators = frozenset(row.operators.split("\n")) - {""}
        return cls(row.policy, operators), row.compared_at


def fingerprint(policy: Policy) -> str:
    """Return a hash that differs for every other config and every other version of this program."""
    choices = {
        name: sorted(value) if isinstance(value, frozenset) else str(value) for name, value in asdict(policy).items()
    }
    return hashlib.sha256(f"{__version__} {sorted(choices.items())}".encode()).hexdigest()


# --- Candidates of a run ---
# Candidates of a run: the names that may need something, by changed rows of AuthMe's and of ours; or all of them.


_BATCH: Final = 10_000
"""Names selected by one statement."""

_NAMES: Final = 2_000
"""Names alone are read in longer pages."""

_PAIRS: Final = 50
"""Names with moments in one statement: MariaDB compares each row with each of them; of 500 it reads the whole table."""

_IDS_PER_RUN: Final = 50_000
"""Ids of users that a run compares with those in the sync records, in about 30 ms."""

Pages = Iterator[Sequence[str]]


class Candidates:
    """Candidates in pages of at most `PAGE` names. Blocking."""

    def __init__(self, database: Database, players: Players) -> None:
        self._database = database
        self._players = players
        self._is_sqlite = isinstance(database, SqliteDatabase)
        self._has_due_date = is_readable(database, User.due_at.column_name)
        self._checked_id: int | None = None
        """Up to which id of a user the sync records were compared; None: no run has compared any."""

    def in_changed_buckets(self, changes: TableChanges) -> Pages:
        """Yield the names of changed rows, or of those in changed buckets, and of users whose row may have gone."""
        if changes.scan is not None:
            yield from pages_of(changes.scan.changed)
            if changes.scan.gone:
                yield from self._without_player(self._users_hashed(changes.scan.gone))
        table = self._players.shared_table() if changes.changed else None
        if table is None:
            return
        names = self.changed_in_buckets(table, changes.changed, changes.since)
        new_rows = Counter(self._players.buckets_of(self._new_names(names, changes.since)).values())
        yield from pages_of(names)
        before = changes.row_counts_before
        if any(
            changes.since is None or n not in before or before[n] + new_rows[n] != now.row_count
            for n, now in changes.changed.items()
        ):
            for lost in self.lost_rows(table):
                yield from pages_of(lost)

    def of_users_without_player(self, newest_id: int) -> Pages:
        """Yield the names of users up to this id that AuthMe has no row for."""
        table = self._players.shared_table()
        if table is None:
            users = User.select(User.username_key).where(User.id <= newest_id)
            yield from self._without_player(_names_by(users, User.username_key))
            return
        for names in self._without_row(table, "regsvc_user", f"o.id <= {newest_id:d}"):
            yield from pages_of(names)

    def due(self, moment: datetime, notice: timedelta, ending: list[int]) -> Pages:
        """Yield the names of users whose ban or membership ends before `moment`.

        The ids of those for whom it ends within `notice` are added to `ending`: one query finds both.
        """
        # in the order of the index that finds them: by name, the server would go through all names instead
        # an unreadable date, which would end the pages, ends nothing
        users = User.select(User.due_at, User.id, User.username_key)
        soon = users.where((User.due_at <= moment + notice) & self._has_due_date)
        for rows in rows_in_order(soon, User.due_at, User.id):
            ending += [user_id for at, user_id, _name in rows if at > moment]
            if names := [name for at, _id, name in rows if at <= moment]:
                yield names

    def edited(self) -> Pages:
        """Yield the names of users whose status was edited in SQL; they are marked as changed until that is applied."""
        is_edited = User.changed_at.is_null(False) & (User.is_edited == True)  # noqa: E712 - SQL
        yield from _users_by(is_edited, User.changed_at)

    def deleted_in_sql(self, *, is_full: bool) -> Pages:
        """Yield the names of players whose user was deleted in SQL, unless a trigger marks them, as on SQLite.

        Each run checks the next `_IDS_PER_RUN` ids; the first of a process checks all, as does a run that misses a user
        or is full: the mass-change guard needs to know of all.
        """
        orphans = (
            SyncRecord.select(SyncRecord.username_key)
            .join(User, JOIN.LEFT_OUTER, on=(User.id == SyncRecord.user_id))
            .where(SyncRecord.user_id.is_null(False), User.id.is_null())
        )
        if not self._is_sqlite and (is_full or self._misses_user(orphans)):
            yield from _names_by(orphans, SyncRecord.username_key, PAGE)

    def _misses_user(self, orphans: Any) -> bool:
        """Return whether one of the next ids is an orphan's; if not, the next run begins after them.

        Counting and adding up the ids of both tables takes a tenth of the time of joining them. The sums are DOUBLEs,
        which are faster than DECIMALs and exact up to 2^53.
        """
        tallies = [
            f"(SELECT COUNT({column}) AS ids, COALESCE(SUM({column} + 0e0), 0) AS total FROM {table} "  # noqa: S608
            f"WHERE {column} > %s AND {column} <= %s)"
            for table, column in (("regsvc_sync_record", "user_id"), ("regsvc_user", "id"))
        ]
        sql = (
            "SELECT r.ids <> u.ids OR r.total <> u.total, (SELECT MAX(user_id) FROM regsvc_sync_record) "  # noqa: S608
            f"FROM {tallies[0]} r, {tallies[1]} u"
        )
        known = self._checked_id
        span = (0, 1 << 62) if known is None else (known, known + _IDS_PER_RUN)
        [(differs, newest)] = self._execute(sql, span * 2)
        # users may have no sync record where AuthMe is not set up
        after, upto = span
        if differs and orphans.where(SyncRecord.user_id > after, SyncRecord.user_id <= upto).exists():
            return True
        self._checked_id = upto if upto < (newest or 0) else 0
        return False

    def changed_in_buckets(
        self, table: SharedTable, buckets: Collection[int], since: datetime | None = None
    ) -> list[str]:
        """Return the names in the buckets whose row is not as last synced, and those whose state changed since."""
        name = table.text("username")
        is_older = "" if since is None else " AND p.plugin_since < %s"
        values = () if since is None else (SyncRecord.plugin_since.db_value(since),)
        found: list[str] = []
        for rows, condition in table.rows_of_buckets(buckets):
            sql = (
                f"SELECT {name} FROM {rows} "  # noqa: S608
                f"LEFT JOIN regsvc_sync_record p ON p.username_key = {name} COLLATE utf8mb4_bin "
                f"WHERE {condition} AND NOT COALESCE({_is_as_synced(table)}{is_older}, 0)"
            )
            found += [row[0] for row in self._execute(sql, values)]
        return found

    def lost_rows(self, table: SharedTable) -> Iterator[list[str]]:
        """Yield the names without a row that had one when last synced, or one that was reported."""
        is_reported = "o.user_id IS NOT NULL AND o.plugin_state IN ('conflict', 'returned', 'locked')"
        yield from self._without_row(table, "regsvc_sync_record", f"(o.presence = '{PRESENT}' OR {is_reported})")

    def _without_row(self, table: SharedTable, ours: str, condition: str) -> Iterator[list[str]]:
        """Look up every name in this table of ours by AuthMe's index of names, `_BATCH` at a time to bound memory."""
        username, text, after = table.raw("username"), table.text("username"), ""
        sql = (
            f"SELECT o.username_key FROM {ours} o LEFT JOIN {table.by_name} "  # noqa: S608
            f"ON {username} = {table.as_username('o.username_key')} "
            f"AND {text} COLLATE utf8mb4_bin = o.username_key WHERE o.username_key > %s AND {condition} "
            f"AND {username} IS NULL ORDER BY o.username_key LIMIT {_BATCH}"
        )
        while True:
            names = [row[0] for row in self._execute(sql, (after,))]
            if names:
                yield names
            if len(names) < _BATCH:
                return
            after = names[-1]

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())

    def _new_names(self, names: Sequence[str], since: datetime | None) -> set[str]:
        """Return the names whose rows may have appeared since `since`.

        Names with a sync record are among them: provisioning and adoption at a login create it before a run sees the
        row.
        """
        if since is None:
            return set()  # the count proves nothing
        new = set(names)
        for page in pages_of(names, _NAMES):
            known = SyncRecord.select(SyncRecord.username_key).where(
                SyncRecord.username_key.in_(page), SyncRecord.presence == PRESENT
            )
            rows: Any = known.where(SyncRecord.plugin_since < since).tuples()
            new -= {row[0] for row in rows}
        return new

    def _users_hashed(self, hashes: Collection[int]) -> Pages:
        for names in _names_by(User.select(User.username_key), User.username_key):
            yield [name for name in names if name_hash(name) in hashes]

    def _without_player(self, names: Pages) -> Pages:
        for found in names:
            for page in pages_of(found, _NAMES):
                existing = self._players.find_names(page)
                yield from pages_of([name for name in page if name not in existing])


def _is_as_synced(table: SharedTable) -> str:
    """SQL on the rows `a` and `p` of one name: AuthMe's row is byte for byte the last synced one, and may be open.

    The last synced row is also what a restored backup brings back in place of one that we have locked since.
    """
    same = " AND ".join(
        f"p.base_{name} <=> {table.raw_or_null(name)}"
        if name == "regdate"
        else f"CAST(p.base_{name} AS BINARY) <=> CAST({table.text(name)} AS BINARY)"
        for name in COMPARED_FIELDS
    )
    is_open = "p.locked_at IS NULL AND p.plugin_state IN ('synced', 'conflict')"
    return f"(p.user_id IS NOT NULL AND p.presence = '{PRESENT}' AND {is_open} AND {same})"


def _users_by(condition: Any, first: Field) -> Pages:
    """Yield the names of these users in the order of the field."""
    users = User.select(first, User.id, User.username_key).where(condition)
    for rows in rows_in_order(users, first, User.id):
        yield [name for _value, _id, name in rows]


def _names_by(query: Any, name: Field, size: int = _NAMES) -> Pages:
    for rows in rows_in_order(query.where(name > ""), name, size=size):  # so that the index of names is read
        yield [row[0] for row in rows]


class ChangeMark(NamedTuple):
    """A user or sync record that changed: its table, its name and when it changed."""

    table: type[User] | type[SyncRecord]
    username_key: str
    changed_at: datetime


class ChangedRows:
    """Change marks of our rows: read and cleared here. Blocking.

    A mark is cleared only as it was read: a row that changed again in the meantime keeps its new mark.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._param = "?" if isinstance(database, SqliteDatabase) else "%s"

    def newest(self) -> list[datetime | None]:
        """Return the newest mark of users and that of sync records, None where there is none."""
        found = []
        for table in (User, SyncRecord):
            marked = table.select(table.changed_at).where(table.changed_at.is_null(False))
            found.append(marked.order_by(table.changed_at.desc()).limit(1).scalar())
        return found

    def pages(self, newest: Sequence[datetime | None]) -> Iterator[list[ChangeMark]]:
        """Yield the marks up to these, oldest first in each table, without those that a run makes meanwhile."""
        user, player = newest
        for table, key, until in ((User, User.id, user), (SyncRecord, SyncRecord.username_key, player)):
            if until is None:
                continue
            marked: Any = table.select(table.changed_at, key, table.username_key).where(table.changed_at <= until)
            for rows in rows_in_order(marked, table.changed_at, key):
                marks = [ChangeMark(table, name, changed_at) for changed_at, _key, name in rows]
                yield marks if table is SyncRecord else marks + self._marks_of_records(marks)

    def _marks_of_records(self, marks: Collection[ChangeMark]) -> list[ChangeMark]:
        """Return the marks of the sync records of these users, so that a name is looked at once."""
        fields, keys = [SyncRecord.username_key, SyncRecord.changed_at], [mark.username_key for mark in marks]
        found = select_rows(self._database, SyncRecord, fields, SyncRecord.username_key, keys)
        return [ChangeMark(SyncRecord, key, changed_at) for key, changed_at in found if changed_at is not None]

    def mark(self, names: Collection[str], moment: datetime) -> None:
        """Mark these names for the next run, unless they are marked already."""
        for keys in pages_of(sorted(names)):
            for table in (User, SyncRecord):
                is_unmarked = table.username_key.in_(keys) & table.changed_at.is_null()
                # read first: MySQL's update would wait for marked rows too that another transaction holds
                found: Any = table.select(table.username_key).where(is_unmarked)
                unmarked = [key for (key,) in found.tuples()]
                if unmarked:
                    is_left = table.username_key.in_(unmarked) & table.changed_at.is_null()
                    table.update(changed_at=moment).where(is_left).execute()

    def clear(self, marks: Collection[ChangeMark]) -> None:
        """Clear the marks of rows that were looked at and need nothing."""
        for table in (User, SyncRecord):
            for page in pages_of([mark for mark in marks if mark.table is table], _PAIRS):
                self._clear(table, page)

    def _clear(self, table: type[User] | type[SyncRecord], marks: Collection[ChangeMark]) -> None:
        names = [mark.username_key for mark in marks]
        pairs = [value for mark in marks for value in (mark.username_key, User.changed_at.db_value(mark.changed_at))]
        pair_list = ", ".join([f"({self._param}, {self._param})"] * len(names))
        seen = f"(VALUES {pair_list})" if self._param == "?" else f"({pair_list})"
        # the names alone first: MariaDB finds no index for a list of pairs
        self._database.execute_sql(
            f"UPDATE {table._meta.table_name} SET changed_at = NULL "  # noqa: S608
            f"WHERE username_key IN ({', '.join([self._param] * len(names))}) AND (username_key, changed_at) IN {seen}",
            (*names, *pairs),
        )
