"""Our tables as plain rows, identical whatever database or file they come from; their checksum, and copies of them.

The models' own queries are not used: a migration has two databases open, and models are bound to one.

A copy goes into an empty database, and is verified by row digests. An unfinished one is marked as such in its
`regsvc_installation` row, which is written first: no daemon starts on it, and a second attempt knows that it may delete
this copy, and nothing else.
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

from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.core.safe_paths import open_regular_file
from regsvc.database.engine import error_sentence
from regsvc.database.location import COPIED, COPYING, MOVED
from regsvc.database.migrator import migrate
from regsvc.database.models import (
    GENERATED,
    MODELS,
    UNKNOWN,
    Lease,
    Migration,
    StoredBucket,
    SyncState,
    UtcDateTimeField,
)

log = logging.getLogger(__name__)

Value = str | int | None
Row = tuple[Value, ...]

CHUNK_ROWS: Final = 500
"""Rows read and written at once."""

# AuthMe's table may be another one where a copy is used; the next start records it
_EXCLUDED_COLUMNS: Final = {"players_table"} | GENERATED
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
    others = (f for f in model._meta.sorted_fields if f is not key and f.column_name not in _EXCLUDED_COLUMNS)
    # one that may be empty is a mark for the next sync run, which the database writes
    fields = [key, *(f for f in others if f.column_name != "changed_at" or not f.null)]
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


@dataclass(frozen=True)
class FileRows(Rows):
    """Rows from files written by `write_tables`."""

    folder: Path
    counts: Mapping[str, int]
    """Rows by table, as `next_numbers` from the backup's manifest."""
    next_numbers: Mapping[str, int]

    def count(self, table: TableSpec) -> int:
        return self.counts.get(table.name, 0)

    def next_number(self, table: TableSpec) -> int:
        return self.next_numbers.get(table.name, 1)

    def chunks(self, table: TableSpec) -> Iterator[list[Row]]:
        path = self.folder / f"{table.name}.jsonl"
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


_INSTALLATION: Final = "regsvc_installation"
_MAX_LOCATION_LENGTH: Final = 255
_OF_MIGRATIONS: Final = ("regsvc_migration", "regsvc_lease")
"""Tables in which an interrupted migration leaves rows."""


class CopyTarget:
    """An empty database that receives a copy."""

    def __init__(self, database: Database, name: str, installation_id: str, now: Clock, *, advice: str = "") -> None:
        """`name`: the target's location name. `installation_id`: that of the copied installation.

        `advice`: what to do about a database that is not empty, if there is another way than to choose another one.
        """
        self._database = database
        self._rows = DatabaseRows(database)
        self._name = name
        self._id = installation_id
        self._now = now
        self._advice = advice

    def find_installation(self) -> str | None:
        """Return the id of the installation whose tables are there; None if there are none."""
        if _INSTALLATION not in self._existing_tables():
            return None
        found = self._database.execute_sql(f"SELECT installation_id FROM {_INSTALLATION}").fetchall()
        return str(found[0][0]) if found else None

    def has_unfinished_copy(self) -> bool:
        """Return whether an unfinished copy of the same installation is there."""
        return self._is_unfinished_copy(self._existing_tables())

    def prepare(self, *, replaces: bool = False) -> None:
        """Create our tables, after deleting an unfinished copy of the same installation; with `replaces` any tables.

        Raises `TransferProblem` if the database holds anything else, and `UnusableSchema`.
        """
        existing = self._existing_tables()
        if replaces and self.find_installation() is not None:  # from now on it is an unfinished copy
            with self._database.atomic():
                param = self._database.param
                sql = f"UPDATE {_INSTALLATION} SET installation_id = {param}, home = {param}"
                self._database.execute_sql(sql, (self._id, f"{COPYING}{self._name}"[:_MAX_LOCATION_LENGTH]))
        if self._is_unfinished_copy(existing):
            self._clear(existing)
        elif filled := [table for table in existing if table not in _OF_MIGRATIONS and self._has_rows(table)]:
            raise TransferProblem(
                f"{self._name} is not empty: {self._describe(filled)}. Nothing is ever overwritten: {self._advise()}"
            )
        with self._database.bind_ctx(MODELS):
            migrate(self._database, self._now)

    def copy(self, source: Rows, title: str, *, ends_sessions: bool = False) -> Checksums:
        """Copy everything in `source`; return the checksums of the rows.

        `ends_sessions`: everyone has to log in again, since those revoked after a backup must stay revoked. Raises
        `TransferProblem`, also if the copy differs from the source.
        """
        tables = list_tables()
        self._mark(source, COPYING)
        total = sum(source.count(table) for table in tables)
        progress = Progress.on_stderr(title, total, passes=2)  # written and read back
        try:
            sent = {table.name: self._copy_table(source, table, progress) for table in tables}
            received = checksums_of(self._rows, progress)
        finally:
            progress.end()
        require_equal(sent, received)
        for table in tables:
            if table.has_auto_increment:
                self._rows.set_next_number(table, source.next_number(table))
        if ends_sessions:  # before the mark, with which a daemon may start
            with self._database.atomic():
                self._database.execute_sql("DELETE FROM regsvc_session")
        write_location(self._database, f"{COPIED}{self._name}")
        return received

    def activate(self) -> None:
        """Record that this database is the one in use."""
        write_location(self._database, self._name)

    def _copy_table(self, source: Rows, table: TableSpec, progress: Progress) -> TableChecksum:
        checksum = TableChecksum()
        for chunk in source.chunks(table):
            checksum.add(_without_location(table, chunk))
            if table.name != _INSTALLATION:
                self._rows.write(table, chunk)
            progress.advance(len(chunk))
        return checksum

    def _mark(self, source: Rows, mark: str) -> None:
        table = next(table for table in list_tables() if table.name == _INSTALLATION)
        [row] = [row for chunk in source.chunks(table) for row in chunk]
        marked = dict(zip(table.columns, row, strict=True)) | {"home": f"{mark}{self._name}"[:_MAX_LOCATION_LENGTH]}
        self._rows.write(table, [tuple(marked[column] for column in table.columns)])

    def _existing_tables(self) -> list[str]:
        """Return our tables that exist: first those never copied, then each copied one after those it refers to."""
        existing = set(self._database.get_tables())
        copied = [table.name for table in list_tables()]
        excluded = [name for model in MODELS if (name := model._meta.table_name) not in copied]
        return [name for name in (*excluded, *copied) if name in existing]

    def _has_rows(self, table: str) -> bool:
        return bool(self._database.execute_sql(f"SELECT 1 FROM {quoted(self._database, table)} LIMIT 1").fetchall())

    def _describe(self, filled: Sequence[str]) -> str:
        location = self._recorded_location() if _INSTALLATION in filled else ""
        if location.startswith(MOVED):
            return f"it was in use until its contents were {location}"
        return f"{filled[0]} has rows"

    def _advise(self) -> str:
        if self._advice:
            return f"{self._advice}."
        if isinstance(self._database, SqliteDatabase):
            path = Path(self._database.database).absolute()
            return f"choose another path, or move the file {path} away if you are sure that it is not needed."
        return "choose an empty database, or drop the regsvc_ tables and views if you are sure they are not needed."

    def _recorded_location(self) -> str:
        found = self._database.execute_sql(f"SELECT home FROM {_INSTALLATION}").fetchall()
        return str(found[0][0]) if found else ""

    def _is_unfinished_copy(self, existing: Sequence[str]) -> bool:
        if _INSTALLATION not in existing:
            return False
        found = self._database.execute_sql(f"SELECT installation_id, home FROM {_INSTALLATION}").fetchall()
        return [row[0] for row in found] == [self._id] and str(found[0][1]).startswith((COPYING, COPIED))

    def _clear(self, existing: Sequence[str]) -> None:
        """Drop everything. The marked table goes last, so that an interrupted cleanup can be continued."""
        for view in self._database.get_views():
            if view.name.startswith("regsvc_v_"):
                self._database.execute_sql(f"DROP VIEW IF EXISTS {quoted(self._database, view.name)}")
        for table in [*(name for name in reversed(existing) if name != _INSTALLATION), _INSTALLATION]:
            self._database.execute_sql(f"DROP TABLE IF EXISTS {quoted(self._database, table)}")


def write_location(database: Database, name: str) -> None:
    """Record a location name in `regsvc_installation.home`."""
    with database.atomic():
        sql = f"UPDATE {_INSTALLATION} SET home = {database.param} WHERE id = 1"
        database.execute_sql(sql, (name[:_MAX_LOCATION_LENGTH],))


def _without_location(table: TableSpec, rows: list[Row]) -> list[Row]:
    if table.name != _INSTALLATION:
        return rows
    index = table.columns.index("home")
    return [(*row[:index], None, *row[index + 1 :]) for row in rows]


def checksums_of(source: Rows, progress: Progress | None = None) -> Checksums:
    """Return counts and digests by table, ignoring the recorded location."""
    checksums = {table.name: TableChecksum() for table in list_tables()}
    for table in list_tables():
        for chunk in source.chunks(table):
            checksums[table.name].add(_without_location(table, chunk))
            if progress is not None:
                progress.advance(len(chunk))
    return checksums


def require_equal(sent: Checksums, received: Checksums) -> None:
    """Raise `TransferProblem` for the first table that differs."""
    for name, checksum in sent.items():
        other = received.get(name, TableChecksum())
        if (checksum.rows, checksum.digest) != (other.rows, other.digest):
            raise TransferProblem(
                f"{name} was not copied correctly: {checksum.rows} rows, digest {checksum.digest[:12]} were sent, "
                f"{other.rows} rows, digest {other.digest[:12]} were received."
            )
