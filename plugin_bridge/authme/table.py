"""AuthMe's table under its configured names, with the columns it really has.

The table belongs to AuthMe: rows are inserted, changed by compare-and-set, and deleted; the table itself, its columns
and its file are never created or altered. Lower-case names, times in milliseconds and AuthMe's "no e-mail" values are
handled here and in `players`. Statements are written out: the query builder takes longer than the database.
"""

import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from peewee import Database, DatabaseError

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.lenient_sqlite import as_number
from plugin_bridge.authme.players import (
    Addresses,
    PlayerRefused,
    PlayerRow,
    Players,
    PlayersUnavailable,
    RowUpdate,
    RowWrite,
    WriteResult,
)
from plugin_bridge.authme.row_writes import (
    PlannedWrite,
    TableLayout,
    Value,
    column_of,
    find_layout,
    plan_write,
    player_rows,
    text_of,
)

_REQUIRED: Final = ("username", "realname", "hash")
_OF_ADDRESSES: Final = ("username", "ip", "regip", "last_login", "regdate")


class AuthMePlayers(Players):
    """Common part of all backends; each adds how to connect, write rows, and recognize an unavailable table."""

    _mark: str
    """Placeholder of a parameter."""
    _greatest: str
    """Function for the greater of two numbers."""
    _collides: str
    """Condition for rows that would prevent a new one of a name, with the column of names in braces."""

    def __init__(
        self,
        database: Database,
        table: str,
        columns: ColumnNames,
        schema: str | None = None,
        lock_group: int | None = None,
    ) -> None:
        """`lock_group`: the group that AuthMe lets nobody in with, where it obeys the column of groups."""
        self._database = database
        self._lock_group = lock_group
        self._table = table
        self._columns = columns
        self._schema = schema
        self._layout: TableLayout | None = None

    def find_colliding(self, key: str) -> PlayerRow | None:
        with self._open_table() as layout:
            sql = f"{layout.select} WHERE {self._collides.format(layout.columns['username'])} LIMIT 1"
            rows = player_rows(self._query(sql, (key,)), layout.lock_group)
        return rows[0] if rows else None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        wanted = set(keys)
        if not wanted:
            return {}
        with self._open_table() as layout:
            marks = ", ".join([self._mark] * len(wanted))
            sql = f"{layout.select} WHERE {layout.columns['username']} IN ({marks})"
            rows = player_rows(self._query(sql, tuple(wanted)), layout.lock_group)
        # a collation may have matched names that are merely similar
        return {row.username: row for row in rows if row.username in wanted}

    def find_names(self, keys: Iterable[str]) -> set[str]:
        wanted = set(keys)
        if not wanted:
            return set()
        with self._open_table() as layout:
            username, marks = layout.columns["username"], ", ".join([self._mark] * len(wanted))
            sql = f"SELECT {username} FROM {layout.table} WHERE {username} IN ({marks})"  # noqa: S608
            return wanted & {text_of(name) or "" for (name,) in self._query(sql, tuple(wanted))}

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        after: tuple[str, ...] = ()
        while True:
            with self._open_table() as layout:
                username = layout.columns["username"]
                condition = f"WHERE {username} > {self._mark}" if after else ""
                sql = f"{layout.select} {condition} ORDER BY {username} LIMIT {size:d}"
                rows = player_rows(self._query(sql, after), layout.lock_group)
            if rows:
                yield rows
                after = (rows[-1].username,)
            if len(rows) < size:
                return

    def find_open_locks(self) -> list[str]:
        with self._open_table() as layout:
            return self._find_open_locks(layout)

    def _find_open_locks(self, layout: TableLayout, is_in_page: str = "", page: Sequence[Value] = ()) -> list[str]:
        """Return those among some rows."""
        username = layout.columns["username"]
        sql = f"SELECT {username} FROM {layout.table} WHERE {is_in_page} {layout.is_open_lock}"  # noqa: S608
        return [text_of(name) or "" for (name,) in self._query(sql, page)]

    def find_addresses(self, since: int, limit: int) -> list[Addresses]:
        with self._open_table() as layout:
            columns = [layout.columns.get(field, "NULL") for field in _OF_ADDRESSES]
            newest = f"{self._greatest}(COALESCE({columns[3]}, 0), COALESCE({columns[4]}, 0))"
            sql = f"SELECT {', '.join(columns)} FROM {layout.table} WHERE {newest} >= {self._mark}"  # noqa: S608
            rows = self._query(f"{sql} ORDER BY {newest} LIMIT {limit:d}", (since,))
        return [
            (text_of(name) or "", text_of(ip), text_of(regip), as_number(login), as_number(regdate))
            for name, ip, regip, login, regdate in rows
        ]

    def is_empty(self) -> bool:
        with self._open_table() as layout:
            return not self._query(f"SELECT 1 FROM {layout.table} LIMIT 1")  # noqa: S608

    def write_many(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        results = [WriteResult(is_written=True)] * len(writes)
        planned: dict[int, PlannedWrite] = {}
        with self._open_table() as layout:
            for number, write in enumerate(writes):
                try:
                    if plan := plan_write(write, self._table, layout.columns):
                        planned[number] = plan
                except PlayerRefused as refused:
                    results[number] = WriteResult(is_written=False, refused=refused)
            if planned:
                for number, result in zip(planned, self._execute_many(layout, list(planned.values())), strict=True):
                    results[number] = result
            for number, write in enumerate(writes):
                has_email = isinstance(write, RowUpdate) and write.changes.get("email") is not None
                if results[number].is_written and has_email and "email" not in layout.columns:
                    results[number] = WriteResult(is_written=True, is_email_refused=True)
        return results

    def find_missing_email_column(self) -> str | None:
        with self._open_table() as layout:
            return None if "email" in layout.columns else self._columns.email

    def refresh(self) -> None:
        """Read the columns again at the next use: AuthMe adds some when it is updated."""
        self._layout = None

    def _query(self, sql: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())

    @contextmanager
    def _open_table(self) -> Iterator[TableLayout]:
        """Yield the layout, connected; database errors that mean so are raised as `PlayersUnavailable`."""
        try:
            self._connect()
            yield self._layout or self._inspect_table()
        except (DatabaseError, sqlite3.Error) as error:
            sentence = self._explain(error)
            if sentence is None:
                raise
            self.refresh()
            raise PlayersUnavailable(sentence) from error

    def _inspect_table(self) -> TableLayout:
        present = self._list_columns()
        if not present:
            raise PlayersUnavailable(self._no_table())
        table = f"`{self._schema}`.`{self._table}`" if self._schema else f"`{self._table}`"
        layout = find_layout(table, self._columns, present, self._lock_group)
        for field in _REQUIRED:
            if field not in layout.columns:
                column = column_of(self._columns, field)
                raise PlayersUnavailable(
                    f"AuthMe's table {self._table} has no column {column}; its config.yml names one."
                )
        self._layout = layout
        return layout

    def _list_columns(self) -> dict[str, bool]:
        """Return the names of the columns, each with whether it may be NULL; without a table there are none."""
        found = self._database.get_columns(self._table, schema=self._schema)
        return {column.name: bool(column.null) for column in found}

    def _no_table(self) -> str:
        return f"There is no table {self._table} yet. Start the game server with AuthMe once; AuthMe creates the table."

    def _no_column(self) -> str:
        return f"AuthMe's table {self._table} lacks a column that it had. If its config.yml is right, try again."

    @abstractmethod
    def _connect(self) -> None:
        """Make sure that the calling thread has a connection."""

    @abstractmethod
    def _execute_many(self, layout: TableLayout, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        """Execute these writes, each with its own result."""

    @abstractmethod
    def _explain(self, error: Exception) -> str | None:
        """Return a sentence if the error means that the table is unavailable; None for all other errors."""
