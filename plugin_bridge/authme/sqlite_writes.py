"""Execution of writes to AuthMe's SQLite file: prepared statements, in transactions of a few milliseconds."""

import sqlite3
from collections.abc import Collection, Sequence
from time import monotonic
from typing import Any, Final

from peewee import DatabaseError
from peewee import __exception_wrapper__ as translating_exceptions  # type: ignore[attr-defined]

from plugin_bridge.authme.lenient_sqlite import is_exactly
from plugin_bridge.authme.players import WriteResult
from plugin_bridge.authme.row_writes import PlannedWrite, Value, refusal, write_alone
from plugin_bridge.authme.table_layout import NUMBERS, TableLayout

_MAX_SECONDS: Final = 0.02
"""A transaction ends after this time: AuthMe writes for the server's main thread, which waits."""


class SqliteWriter:
    """Executor of writes over a connection in autocommit mode, for one call of `write_many`."""

    def __init__(self, connection: sqlite3.Connection, layout: TableLayout) -> None:
        self._connection = connection
        self._layout = layout
        self._found: tuple[int, set[str]] | None = None
        self._taken: set[str] | None = None

    def write_together(self, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        """Execute the writes in their order, in transactions of `_MAX_SECONDS`."""
        results: list[WriteResult] = []
        names = {write.username for write in writes if write.is_insert}
        if names and len({write.username for write in writes}) == len(writes):
            self._found = self._data_version(), self._find_taken(names)
        try:
            while len(results) < len(writes):
                self._run("BEGIN IMMEDIATE")
                self._taken = self._still_taken()
                until = monotonic() + _MAX_SECONDS
                for write in writes[len(results) :]:
                    results.append(write_alone(self.execute, write))
                    if monotonic() >= until:
                        break
                self._run("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._run("ROLLBACK")
        return results

    def execute(self, write: PlannedWrite) -> bool:
        """Execute one write. Returns whether a row was written; raises `PlayerRefused` or `PlayerExists`."""
        if write.is_insert:
            return self._insert(write)
        table, columns = self._layout.table, self._layout.columns
        conditions = [f"{columns['username']} = ?"]
        conditions += [is_exactly(columns[field], field in NUMBERS, value) for field, value in write.seen.items()]
        changes = ", ".join(f"{columns[field]} = ?" for field in write.new)
        statement = f"UPDATE {table} SET {changes}" if changes else f"DELETE FROM {table}"  # noqa: S608
        values = (*write.new.values(), write.username, *write.seen.values())
        return self._run(f"{statement} WHERE {' AND '.join(conditions)}", values) > 0

    def _insert(self, write: PlannedWrite) -> bool:
        """Insert a row. The unique key here distinguishes case, AuthMe only sometimes: one row for one name."""
        columns = ", ".join(self._layout.columns[field] for field in write.new)
        marks = ", ".join("?" * len(write.new))
        into = f"INSERT INTO {self._layout.table} ({columns})"
        if self._taken is None:
            table, username = self._layout.table, self._layout.columns["username"]
            taken = f"SELECT 1 FROM {table} WHERE LOWER({username}) = ?"  # noqa: S608
            sql = f"{into} SELECT {marks} WHERE NOT EXISTS ({taken})"
            return self._run(sql, (*write.new.values(), write.username)) > 0
        if write.username in self._taken:
            return False
        self._run(f"{into} VALUES ({marks})", tuple(write.new.values()))
        self._taken.add(write.username)
        return True

    def _find_taken(self, names: Collection[str]) -> set[str]:
        """Return those of these names that a row has, in any case. A look at all rows: no index ignores case."""
        lower = f"LOWER({self._layout.columns['username']})"
        sql = f"SELECT {lower} FROM {self._layout.table} WHERE {lower} IN ({', '.join('?' * len(names))})"  # noqa: S608
        return {name for (name,) in self._query(sql, tuple(names))}

    def _still_taken(self) -> set[str] | None:
        """Return what was found before the transaction if no other program wrote since; None: each insert must look."""
        if self._found is None or self._found[0] != self._data_version():
            return None
        return self._found[1]

    def _data_version(self) -> int:
        [(version,)] = self._query("PRAGMA data_version")
        return int(version)

    def _query(self, sql: str, values: tuple[Value, ...] = ()) -> list[tuple[Any, ...]]:
        with translating_exceptions:
            return self._connection.execute(sql, values).fetchall()

    def _run(self, sql: str, values: tuple[Value, ...] = ()) -> int:
        try:
            with translating_exceptions:
                return self._connection.execute(sql, values).rowcount
        except DatabaseError as error:
            refused = refusal(error)
            if refused is None:
                raise
            raise refused from None
