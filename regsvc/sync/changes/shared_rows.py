"""Candidates found by SQL that joins AuthMe's table with ours, where one server has both.

It selects names and decides nothing: a row that is not as it was when last synced, a name without its row.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final

from peewee import Database

from plugin_bridge.authme.table_checksums import COMPARED_FIELDS, SharedTable
from regsvc.database.models import PRESENT, Player

_BATCH: Final = 10_000
"""Names selected by one statement."""


class SharedRows:
    """Selection of names by comparing AuthMe's rows with our sync records. Blocking."""

    def __init__(self, database: Database, table: SharedTable) -> None:
        self._database = database
        self._table = table

    def changed_in_buckets(self, buckets: Collection[int], since: datetime | None = None) -> list[str]:
        """Return the names in the buckets whose row is not as last synced, and those whose state changed since."""
        name = self._table.text("username")
        is_older = "" if since is None else " AND p.plugin_since < %s"
        values = () if since is None else (Player.plugin_since.db_value(since),)
        found: list[str] = []
        for rows, condition in self._table.rows_of_buckets(buckets):
            sql = (
                f"SELECT {name} FROM {rows} "  # noqa: S608
                f"LEFT JOIN regsvc_player p ON p.username_key = {name} COLLATE utf8mb4_bin "
                f"WHERE {condition} AND NOT COALESCE({self._is_as_synced}{is_older}, 0)"
            )
            found += [row[0] for row in self._execute(sql, values)]
        return found

    def lost_rows(self) -> Iterator[list[str]]:
        """Yield the names of players without a row that had one when last synced, or one that was reported."""
        is_reported = "o.user_id IS NOT NULL AND o.plugin_state IN ('conflict', 'returned', 'locked')"
        yield from self._without_row("regsvc_player", f"(o.presence = '{PRESENT}' OR {is_reported})")

    def users_without_row(self, newest_id: int) -> Iterator[list[str]]:
        """Yield the names of users up to this id that have no row."""
        yield from self._without_row("regsvc_user", f"o.id <= {newest_id:d}")

    def _without_row(self, ours: str, condition: str) -> Iterator[list[str]]:
        """Look up every name in this table of ours by AuthMe's index of names, `_BATCH` at a time to bound memory."""
        username, text, after = self._table.raw("username"), self._table.text("username"), ""
        sql = (
            f"SELECT o.username_key FROM {ours} o LEFT JOIN {self._table.by_name} "  # noqa: S608
            f"ON {username} = {self._table.as_username('o.username_key')} "
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

    @property
    def _is_as_synced(self) -> str:
        """SQL on the rows `a` and `p` of one name: AuthMe's row is byte for byte the last synced one, and may be open.

        The last synced row is also what a restored backup brings back in place of one that we have locked since.
        """
        same = " AND ".join(
            f"p.base_{name} <=> {self._table.raw_or_null(name)}"
            if name == "regdate"
            else f"CAST(p.base_{name} AS BINARY) <=> CAST({self._table.text(name)} AS BINARY)"
            for name in COMPARED_FIELDS
        )
        is_open = "p.locked_at IS NULL AND p.plugin_state IN ('synced', 'conflict')"
        return f"(p.user_id IS NOT NULL AND p.presence = '{PRESENT}' AND {is_open} AND {same})"

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())
