"""Our tables as plain rows that are identical whatever database or file they come from, and a checksum of them.

The models' own queries are not used: a migration has two databases open, and models are bound to one.
"""

# ruff: noqa: S608 - the names are our own tables'

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from peewee import (
    BigIntegerField,
    BooleanField,
    Database,
    Field,
    ForeignKeyField,
    IntegerField,
    PeeweeException,
    SqliteDatabase,
)

from regsvc.core.safe_paths import open_regular_file
from regsvc.database.engine import error_sentence
from regsvc.database.models import MODELS, UNKNOWN, Lease, Migration, StoredBucket, SyncState, UtcDateTimeField

log = logging.getLogger(__name__)

Value = str | int | None
Row = tuple[Value, ...]

CHUNK_ROWS: Final = 500
"""Rows read and written at once."""

# AuthMe's table may be another one where a copy is used; the next start records it
_EXCLUDED_COLUMNS: Final = {"is_asked", "is_edited", "look_key", "mailbox", "shown_as", "changed_at", "players_table"}
# a lease is held in one database; the target has its own migrations; the sync rebuilds its digests
_EXCLUDED_MODELS: Final = (Lease, Migration, StoredBucket, SyncState)
_UNKNOWN: Final = UtcDateTimeField().db_value(UNKNOWN)
_MODULUS: Final = 1 << 256
_ROWS_PER_STATEMENT: Final = 100  # stays below MySQL's max_allowed_packet even with long questionnaire answers


class TransferProblem(Exception):
    """The command cannot be carried out; `str()` says why and what to do. Nothing is lost."""


@dataclass(frozen=True)
class TableSpec:
    """One of our tables. `columns` begins with its primary key."""

    name: str
    columns: tuple[str, ...]
    readers: tuple[Callable[[Any], Value], ...] = field(repr=False)
    has_auto_increment: bool

    @property
    def key(self) -> str:
        return self.columns[0]


def list_tables() -> list[TableSpec]:
    """Return every table that is transferred, each after those its foreign keys refer to."""
    waiting: list[Any] = [model for model in MODELS if model not in _EXCLUDED_MODELS]
    ordered: list[Any] = []
    while waiting:
        model = next(model for model in waiting if _referred_to(model) <= {*ordered, model})
        ordered.append(model)
        waiting.remove(model)
    return [_table(model) for model in ordered]


def _referred_to(model: Any) -> set[Any]:
    return {f.rel_model for f in model._meta.sorted_fields if isinstance(f, ForeignKeyField)}


def _table(model: Any) -> TableSpec:
    key = model._meta.primary_key
    fields = [key, *(f for f in model._meta.sorted_fields if f is not key and f.column_name not in _EXCLUDED_COLUMNS)]
    return TableSpec(
        name=model._meta.table_name,
        columns=tuple(f.column_name for f in fields),
        readers=tuple(_reader(f) for f in fields),
        has_auto_increment=type(key).__name__ == "BigAutoField",
    )


def _reader(column: Field) -> Callable[[Any], Value]:
    """Return the function that normalizes a driver's value for this column."""
    kind = column.rel_field if isinstance(column, ForeignKeyField) else column
    if isinstance(kind, UtcDateTimeField):
        return partial(_timestamp, kind)
    return _integer if isinstance(kind, BooleanField | IntegerField | BigIntegerField) else _text


def _timestamp(column: UtcDateTimeField, value: Any) -> Value:
    """Return the date as text. One that cannot be read is copied as it is read: empty, or where required 1970."""
    moment: str | None = column.db_value(column.python_value(value))
    if value is not None and moment in (None, _UNKNOWN):
        where = f"{column.model._meta.table_name}.{column.column_name}"
        log.warning("a date that cannot be read is not copied: %s is %r", where, value)
    return moment


def _integer(value: Any) -> Value:
    return None if value is None else int(value)


def _text(value: Any) -> Value:
    return None if value is None else value if isinstance(value, str) else str(value)


@dataclass
class TableChecksum:
    """Row count, and a digest of the rows that does not depend on their order: databases sort differently."""

    rows: int = 0
    total: int = 0

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            self.total = (self.total + int.from_bytes(digest)) % _MODULUS
        self.rows += len(rows)

    @property
    def digest(self) -> str:
        """64 hexadecimal digits."""
        return f"{self.total:064x}"


Checksums = dict[str, TableChecksum]
"""By table."""


def print_tables(checksums: Checksums) -> int:
    """Print the checksums; return the number of rows."""
    for name, checksum in checksums.items():
        print(f"  {name:<28} {checksum.rows:>9} rows, digest {checksum.digest[:16]}")
    return sum(checksum.rows for checksum in checksums.values())


class Rows(Protocol):
    """Source of rows: a database, or the files of a backup."""

    def count(self, table: TableSpec) -> int: ...

    def chunks(self, table: TableSpec) -> Iterator[list[Row]]:
        """Yield all rows in chunks, so that memory is bounded. Raises `TransferProblem` for an unreadable row."""

    def next_number(self, table: TableSpec) -> int:
        """Return the next auto-increment id; ids of deleted rows are not reused."""


def quoted(database: Database, name: str) -> str:
    """Quote a table or column name for SQL."""
    mark = str(database.quote)[0]
    return f"{mark}{name}{mark}"


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


class FileRows(Rows):
    """Rows from files written by `write_tables`."""

    def __init__(self, folder: Path, rows: Mapping[str, int], next_numbers: Mapping[str, int]) -> None:
        """`rows` (counts) and `next_numbers` by table, from the backup's manifest."""
        self._folder = folder
        self._rows = rows
        self._next_numbers = next_numbers

    def count(self, table: TableSpec) -> int:
        return self._rows.get(table.name, 0)

    def next_number(self, table: TableSpec) -> int:
        return self._next_numbers.get(table.name, 1)

    def chunks(self, table: TableSpec) -> Iterator[list[Row]]:
        path = self._folder / f"{table.name}.jsonl"
        try:
            # a descriptor, not a path
            with open(open_regular_file(path), encoding="utf-8") as file:  # noqa: PTH123
                if json.loads(file.readline()) != list(table.columns):
                    raise TransferProblem(f"{path} has other columns than {table.name}.")
                chunk: list[Row] = []
                for line in file:
                    chunk.append(tuple(json.loads(line)))
                    if len(chunk) == CHUNK_ROWS:
                        yield chunk
                        chunk = []
                if chunk:
                    yield chunk
        except (OSError, ValueError) as error:
            raise TransferProblem(f"{path} cannot be read: {error}.") from error


def write_tables(rows: Rows, folder: Path, on_rows: Callable[[int], None]) -> None:
    """Write one file per table: a line with the column names, then a line for each row."""
    folder.mkdir(mode=0o700)
    for table in list_tables():
        with (folder / f"{table.name}.jsonl").open("w", encoding="utf-8") as file:
            file.write(f"{json.dumps(table.columns)}\n")
            for chunk in rows.chunks(table):
                file.writelines(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in chunk)
                on_rows(len(chunk))
