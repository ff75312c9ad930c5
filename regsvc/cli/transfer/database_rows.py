"""Rows of our tables in a database, read in chunks ordered by key, and written in chunks."""

# ruff: noqa: S608 - the names are our own tables'

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from peewee import Database, PeeweeException, SqliteDatabase

from regsvc.cli.transfer.tables import CHUNK_ROWS, Row, Rows, TableSpec, TransferProblem, quoted
from regsvc.database.engine import error_sentence

_ROWS_PER_STATEMENT: Final = 100  # stays below MySQL's max_allowed_packet even with long questionnaire answers


class DatabaseRows(Rows):
    """Reader and writer of rows over the database's open connection."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._is_sqlite = isinstance(database, SqliteDatabase)

    def count(self, table: TableSpec) -> int:
        return int(self._query(f"SELECT COUNT(*) FROM {self._quoted(table.name)}")[0][0])

    def newest(self, table: TableSpec) -> Any:
        """Return the largest key; None if the table is empty."""
        return self._query(f"SELECT MAX({self._quoted(table.key)}) FROM {self._quoted(table.name)}")[0][0]

    def chunks(self, table: TableSpec) -> Iterator[list[Row]]:
        columns = ", ".join(map(self._quoted, table.columns))
        key, name, param = self._quoted(table.key), self._quoted(table.name), self.database.param
        after: object = None
        while True:
            beyond = "" if after is None else f" WHERE {key} > {param}"
            sql = f"SELECT {columns} FROM {name}{beyond} ORDER BY {key} LIMIT {CHUNK_ROWS}"
            found = self._query(sql, () if after is None else (after,))
            if found:
                yield [_read(table, row) for row in found]
                after = found[-1][0]
            if len(found) < CHUNK_ROWS:
                return

    def write(self, table: TableSpec, rows: Sequence[Row]) -> None:
        """Insert rows unchanged. Raises `TransferProblem` if the database refuses one of them."""
        columns = ", ".join(map(self._quoted, table.columns))
        values = f"({', '.join([self.database.param] * len(table.columns))})"
        sql = f"INSERT INTO {self._quoted(table.name)} ({columns}) VALUES "
        try:
            with self.database.atomic():
                for first in range(0, len(rows), _ROWS_PER_STATEMENT):
                    some = rows[first : first + _ROWS_PER_STATEMENT]
                    flat = [value for row in some for value in row]
                    self.database.execute_sql(sql + ", ".join([values] * len(some)), flat)
        except PeeweeException as error:
            raise TransferProblem(
                f"The target database refused the rows of {table.name} from {table.key} {rows[0][0]!r} to "
                f"{rows[-1][0]!r}: {error_sentence(error)}."
            ) from error

    def next_number(self, table: TableSpec) -> int:
        if self._is_sqlite:
            found = self._query("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,))
            return int(found[0][0]) + 1 if found else 1
        # MySQL 8 caches this number in information_schema for up to a day
        statement = str(self._query(f"SHOW CREATE TABLE {self._quoted(table.name)}")[0][1])
        number = re.search(r"\bAUTO_INCREMENT=(\d+)", statement.rpartition("\n")[2])
        return int(number[1]) if number else 1

    def set_next_number(self, table: TableSpec, number: int) -> None:
        """Set the id of the next row."""
        if not self._is_sqlite:
            self.database.execute_sql(f"ALTER TABLE {self._quoted(table.name)} AUTO_INCREMENT = {number}")
            return
        changed = self.database.execute_sql(
            "UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number - 1, table.name)
        )
        if not changed.rowcount:
            self.database.execute_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, number - 1))

    @contextmanager
    def snapshot(self, *, blocks_writers: bool = False) -> Iterator[None]:
        """Context manager in which all reads see the same snapshot. `blocks_writers` has an effect on SQLite only."""
        if self._is_sqlite:
            begin = "BEGIN IMMEDIATE" if blocks_writers else "BEGIN"
        else:
            self.database.execute_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
        self.database.execute_sql(begin)
        try:
            if self._is_sqlite:
                self._query("SELECT 1 FROM sqlite_master LIMIT 1")  # the snapshot is taken by the first read
            yield
        finally:
            self.database.execute_sql("ROLLBACK")

    def _query(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return list(self.database.execute_sql(sql, values or None).fetchall())

    def _quoted(self, name: str) -> str:
        return quoted(self.database, name)


def _read(table: TableSpec, row: Sequence[object]) -> Row:
    try:
        return tuple(reader(value) for reader, value in zip(table.readers, row, strict=True))
    except (ValueError, TypeError, OverflowError) as error:
        raise TransferProblem(
            f"{table.name} has a row with an unusable value ({table.key} {row[0]!r}: {error}): fix it first."
        ) from error
