"""AuthMe's table in its own SQLite file: opened, never created.

SQLite stores any value in any column: texts that are not UTF-8, blobs, numbers and dates as text. Java reads all of
them, and so do we: bytes that are not UTF-8 become U+FFFD, as in AuthMe. Comparisons use the value as it was read.
"""

import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from operator import attrgetter
from pathlib import Path
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import quote

from peewee import DatabaseError, SqliteDatabase
from peewee import __exception_wrapper__ as translating_exceptions  # type: ignore[attr-defined]

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.players import PlayerRow, PlayersUnavailable, WriteResult
from plugin_bridge.authme.table import (
    NUMBERS,
    AuthMePlayers,
    PlannedWrite,
    TableLayout,
    Value,
    as_number,
    as_text,
    player_rows,
    refusal,
    write_alone,
)
from plugin_bridge.authme.table_checksums import COMPARED_FIELDS, FileVersion, TableScan, row_ranges, scan_table
from plugin_bridge.text import UNREADABLE

_MAX_SECONDS: Final = 0.02
"""A transaction ends after this time: AuthMe writes for the server's main thread, which waits."""

_PAGES_SORTED: Final = 10


class LenientSqlite(SqliteDatabase):
    """Connection to an SQLite file that another program owns."""

    def __init__(self, uri: str, busy_timeout: float) -> None:
        super().__init__(uri, uri=True, timeout=busy_timeout)
        self.register_function(as_text, "as_text", 1)
        self.register_function(as_number, "as_number", 1)

    def _connect(self) -> Any:
        connection = super()._connect()  # type: ignore[misc]
        connection.text_factory = as_text
        return connection


def is_exactly(column: str, is_number: bool, value: str | int | None) -> str:
    """Return a condition, with one parameter, for whether a column would be read as this value, NULL included."""
    if is_number:
        return f"as_number(CASE WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) ELSE {column} END) IS ?"
    if isinstance(value, str) and UNREADABLE in value:
        return f"as_text(CAST({column} AS BLOB)) IS ?"
    return f"CAST({column} AS TEXT) IS ?"


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
        columns = ", ".join(map(self._layout.columns.__getitem__, write.new))
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


class SqlitePlayers(AuthMePlayers):
    """AuthMe's table in its own SQLite file, over a connection of its own."""

    _mark = "?"
    _greatest = "MAX"
    _collides = "LOWER({})"

    def __init__(self, path: Path, table: str, columns: ColumnNames, busy_timeout: timedelta) -> None:
        uri = f"file:{quote(str(path.absolute()))}?mode=rw"
        super().__init__(LenientSqlite(uri, busy_timeout.total_seconds()), table, columns)
        self._path = path
        self._local = threading.local()
        self._version = FileVersion(path, busy_timeout)

    def close(self) -> None:
        self._database.close()
        self._version.close()

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        """Yield the pages of some thousands of rows in the order of their names.

        Adopted in that order, they fill the same pages of our indexes of names: a sixth as much is written to the disk.
        """
        pages = self._pages_by_id(size)
        while True:
            rows = list[PlayerRow]()
            for page in islice(pages, _PAGES_SORTED):
                rows += page
                if len(page) < size:
                    break
            if not rows:
                return
            rows.sort(key=attrgetter("username"))
            for start in range(0, len(rows), size):
                yield rows[start : start + size]

    def _pages_by_id(self, size: int) -> Iterator[list[PlayerRow]]:
        """Yield pages for ever: empty ones where no row is left, until one is added."""
        after = -(1 << 63)  # not by name: one that is not UTF-8 sorts elsewhere than the text it is read as
        while True:
            with self._open_table() as layout:
                # neither SQLite nor AuthMe finds a blob by its text: such a name is read as one that finds no row
                is_blob = f"typeof({layout.columns['username']}) = 'blob'"
                numbered = layout.select.replace("SELECT ", f"SELECT rowid, {is_blob}, ", 1)
                page = self._query(f"{numbered} WHERE rowid > ? ORDER BY rowid LIMIT {size:d}", (after,))
            rows = player_rows(values for _number, _is_blob, *values in page)
            for place, (_number, is_blob, *_values) in enumerate(page):
                if is_blob:
                    rows[place] = replace(rows[place], username=f"{UNREADABLE}{rows[place].username}")
            after = page[-1][0] if page else after
            yield rows

    def version(self) -> object:
        try:
            return self._version.read()
        except OSError as error:
            raise PlayersUnavailable(f"AuthMe's file {self._path} cannot be opened: {error.strerror}.") from None
        except sqlite3.Error as error:
            raise PlayersUnavailable(
                self._explain(error) or f"AuthMe's file {self._path} cannot be read: {error}."
            ) from error

    def scan(self, last: TableScan | None) -> TableScan:
        with self._open_table() as layout:
            columns = [layout.columns[name] for name in ("username", *COMPARED_FIELDS) if name in layout.columns]
        return scan_table(self._look, layout.table, columns, layout.is_open_lock, last)

    def find_open_locks(self) -> list[str]:
        found = list[str]()
        for after, upto in row_ranges(self._look, f"`{self._table}`"):
            with self._open_table() as layout:
                found += self._find_open_locks(layout, "rowid > ? AND rowid <= ? AND", (after, upto))
        return found

    def _look(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._open_table():
            return self._query(sql, values)

    def _connect(self) -> None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - called before every statement
        except OSError as error:
            self.close()
            raise PlayersUnavailable(f"AuthMe's file {self._path} cannot be opened: {error.strerror}.") from None
        file = (status.st_dev, status.st_ino)
        if getattr(self._local, "file", None) != file:  # a restored backup is another file under the same name
            self.close()
            self._layout = None
        self._database.connect(reuse_if_open=True)
        self._local.file = file

    def _execute_many(self, layout: TableLayout, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        writer = SqliteWriter(cast(sqlite3.Connection, self._database.connection()), layout)
        if len(writes) == 1:
            return [write_alone(writer.execute, writes[0])]
        return writer.write_together(writes)

    def _explain(self, error: Exception) -> str | None:
        message = str(error)
        if "locked" in message or "busy" in message:
            return f"AuthMe's file {self._path} is busy; the operation will be tried again."
        if "no such table" in message:
            return self._no_table()
        if "no such column" in message:
            return self._no_column()
        if "unable to open" in message or "readonly" in message or "not a database" in message or "disk" in message:
            return f"AuthMe's file {self._path} cannot be used: {message}."
        return None
