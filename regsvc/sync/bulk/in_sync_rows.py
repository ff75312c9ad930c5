"""SQL filter for AuthMe's rows that are plainly in sync; all other names are reconciled one by one.

Only where AuthMe's table is on the server that has ours. Anything but a plain case counts as out of sync.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from peewee import Database

from plugin_bridge.authme.players import LOCK_PREFIX, NO_EMAIL
from plugin_bridge.authme.table_checksums import SharedTable
from regsvc.database.models import APPROVED, PRESENT, Player

BATCH: Final = 10_000
"""Rows in a key range."""


@dataclass(frozen=True)
class KeyRange:
    """Usernames after `after` (None: from the first) through `up_to` (None: to the last), in index order."""

    after: str | None
    up_to: str | None

    @property
    def values(self) -> tuple[str, ...]:
        """The values for the placeholders of the condition."""
        return tuple(value for value in (self.after, self.up_to) if value is not None)

    def condition(self, table: SharedTable) -> str:
        """Return the SQL condition on the alias `a`, which uses AuthMe's unique index."""
        username = table.raw("username")
        after = f"{username} > %s" if self.after is not None else "1 = 1"
        return after if self.up_to is None else f"{after} AND {username} <= %s"


class InSyncRows:
    """SQL filter for the names of rows that are not plainly in sync. Blocking."""

    def __init__(self, database: Database, table: SharedTable) -> None:
        self._database = database
        self._table = table

    def ranges(self) -> Iterator[KeyRange]:
        """Yield ranges of `BATCH` rows that cover the whole table, each read when the one before is done."""
        username, after = self._table.raw("username"), None
        while True:
            beyond = f"WHERE {username} > %s" if after is not None else ""
            sql = f"SELECT {self._table.text('username')} FROM {self._table.by_name} {beyond} "  # noqa: S608
            given = () if after is None else (after,)
            rows = self._execute(f"{sql} ORDER BY {username} LIMIT 1 OFFSET {BATCH - 1}", given)
            up_to = rows[0][0] if rows else None
            yield KeyRange(after, up_to)
            if up_to is None:
                return
            after = up_to

    def out_of_sync_within(self, within: KeyRange) -> list[str]:
        """Return all names in the range except those of approved users whose row is plainly in sync."""
        return self._out_of_sync(self._table.by_name, within.condition(self._table), within.values)

    def out_of_sync_in_buckets(self, buckets: Collection[int], since: datetime | None = None) -> list[str]:
        """Return such names in the buckets, and also all names whose state changed since `since`."""
        is_older = "" if since is None else " AND p.plugin_since < %s"
        values = () if since is None else (Player.plugin_since.db_value(since),)
        found: list[str] = []
        for rows, condition in self._table.rows_of_buckets(buckets):
            found += self._out_of_sync(rows, condition, values, is_older)
        return found

    def lost_rows(self) -> Iterator[list[str]]:
        """Yield the names of players without a row that had one when last synced, or one that was reported."""
        is_reported = "o.user_id IS NOT NULL AND o.plugin_state IN ('conflict', 'returned', 'locked')"
        yield from self._without_row("regsvc_player", f"(o.presence = '{PRESENT}' OR {is_reported})")

    def users_without_row(self, newest_id: int) -> Iterator[list[str]]:
        """Yield the names of users up to this id that have no row."""
        yield from self._without_row("regsvc_user", f"o.id <= {newest_id:d}")

    def _without_row(self, ours: str, condition: str) -> Iterator[list[str]]:
        """Look up every name in this table of ours by AuthMe's index of names, `BATCH` at a time to bound memory."""
        username, text, after = self._table.raw("username"), self._table.text("username"), ""
        sql = (
            f"SELECT o.username_key FROM {ours} o LEFT JOIN {self._table.by_name} "  # noqa: S608
            f"ON {username} = {self._table.as_username('o.username_key')} "
            f"AND {text} COLLATE utf8mb4_bin = o.username_key WHERE o.username_key > %s AND {condition} "
            f"AND {username} IS NULL ORDER BY o.username_key LIMIT {BATCH}"
        )
        while True:
            names = [row[0] for row in self._execute(sql, (after,))]
            if names:
                yield names
            if len(names) < BATCH:
                return
            after = names[-1]

    def _out_of_sync(self, rows: str, condition: str, values: tuple[Any, ...] = (), and_only_if: str = "") -> list[str]:
        """Return the names of such rows; `and_only_if` is a further condition for being in sync."""
        name = self._table.text("username")
        sql = (
            f"SELECT {name} FROM {rows} "  # noqa: S608
            f"LEFT JOIN regsvc_user u ON u.username_key = {name} COLLATE utf8mb4_bin "
            f"LEFT JOIN regsvc_player p ON p.username_key = {name} COLLATE utf8mb4_bin "
            f"WHERE {condition} AND NOT COALESCE({self._is_in_sync}{and_only_if}, 0)"
        )
        return [row[0] for row in self._execute(sql, values)]

    @property
    def _is_in_sync(self) -> str:
        """SQL on the rows `a`, `u` and `p` of one name, true only where `plan.decide` would surely return None."""
        text, number = self._table.text, self._table.raw_or_null
        same = " AND ".join(
            f"CAST(p.base_{name} AS BINARY) <=> CAST({text(name)} AS BINARY)"
            for name in ("hash", "salt", "email", "realname")
        )
        email, realname = text("email"), text("realname")
        return (
            f"(u.status = '{APPROVED}' AND u.applied_status = '{APPROVED}' AND p.user_id = u.id "
            "AND p.presence = 'present' AND p.plugin_state = 'synced' AND p.conflict IS NULL AND p.wish IS NULL "
            f"AND p.locked_at IS NULL AND {same} AND p.base_regdate <=> {number('regdate')} "
            f"AND LEFT({text('hash')}, {len(LOCK_PREFIX)}) <> '{LOCK_PREFIX}' "
            "AND (u.password_hash IS NULL OR u.password_hash = p.base_hash) "
            "AND LOWER(u.username) = u.username_key "
            f"AND (CAST(u.username AS BINARY) = CAST({realname} AS BINARY) OR {realname} = 'Player') "
            f"AND IF({email} IS NULL OR {email} = '' OR LOWER({email}) = '{NO_EMAIL}', u.email IS NULL, "
            f"LOWER({email}) = LOWER(u.email)))"
        )

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())
