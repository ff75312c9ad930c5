"""Our tables as plain rows that are identical whatever database they come from, and a checksum of them.

The models' own queries are not used: a migration has two databases open, and models are bound to one.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from peewee import (
    BigIntegerField,
    BooleanField,
    Database,
    Field,
    ForeignKeyField,
    IntegerField,
)

from regsvc.database.models import MODELS, UNKNOWN, DigestBucket, Lease, Migration, SyncState, UtcDateTimeField

log = logging.getLogger(__name__)

Value = str | int | None
Row = tuple[Value, ...]

CHUNK_ROWS: Final = 500
"""Rows read and written at once."""

_GENERATED_COLUMNS: Final = {"is_edited", "changed_at"}
# a lease is held in one database; the target has its own migrations; the sync rebuilds its digests
_EXCLUDED_MODELS: Final = (Lease, Migration, DigestBucket, SyncState)
_UNKNOWN: Final = UtcDateTimeField().db_value(UNKNOWN)
_MODULUS: Final = 1 << 256


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
    fields = [key, *(f for f in model._meta.sorted_fields if f is not key and f.column_name not in _GENERATED_COLUMNS)]
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


class Rows(Protocol):
    """Source of rows: a database, or the files of a backup."""

    def count(self, table: TableSpec) -> int: ...

    def chunks(self, table: TableSpec) -> Iterator[list[Row]]:
        """Yield all rows in chunks, so that memory is bounded. Raises `TransferProblem` for an unreadable row."""

    def next_number(self, table: TableSpec) -> int:
        """Return the next auto-increment id; ids of deleted rows are not reused."""


def checksum_of(rows: Rows, table: TableSpec, on_rows: Callable[[int], None] | None = None) -> TableChecksum:
    """Return count and digest of all rows. `on_rows` is called with the size of each chunk read."""
    checksum = TableChecksum()
    for chunk in rows.chunks(table):
        checksum.add(chunk)
        if on_rows is not None:
            on_rows(len(chunk))
    return checksum


def quoted(database: Database, name: str) -> str:
    """Quote a table or column name for SQL."""
    mark = str(database.quote)[0]
    return f"{mark}{name}{mark}"
