"""Our tables as plain rows that look the same whatever database they came from, and a digest of them.

Nothing here uses the models' own queries: a move has two databases open, and the models know one.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from peewee import (
    BigIntegerField,
    BooleanField,
    Database,
    Field,
    ForeignKeyField,
    IntegerField,
)

from regsvc.database.models import MODELS, DigestBucket, Lease, Migration, SyncState, UtcDateTimeField

Value = str | int | None
Row = tuple[Value, ...]

CHUNK: Final = 500
"""Rows read, and written, at once."""

_DATABASE_MAKES: Final = {"is_edited", "changed_at"}
# whoever holds a lease holds it in one database; the migrations are the new database's own; what the sync saw, it sees
# anew
_STAY: Final = (Lease, Migration, DigestBucket, SyncState)
_MOMENT: Final = UtcDateTimeField()
_MODULUS: Final = 1 << 256


class TransferProblem(Exception):
    """What was asked for cannot be done; `str()` is a sentence with what to do. Nothing is lost."""


@dataclass(frozen=True)
class Table:
    """One of our tables. `columns` begins with its primary key; `is_counted`: the database numbers its rows."""

    name: str
    columns: tuple[str, ...]
    readers: tuple[Callable[[Any], Value], ...] = field(repr=False)
    is_counted: bool

    @property
    def key(self) -> str:
        return self.columns[0]


def list_tables() -> list[Table]:
    """Every table that goes along, a table after those it refers to."""
    waiting: list[Any] = [model for model in MODELS if model not in _STAY]
    ordered: list[Any] = []
    while waiting:
        model = next(model for model in waiting if _referred_to(model) <= {*ordered, model})
        ordered.append(model)
        waiting.remove(model)
    return [_table(model) for model in ordered]


def _referred_to(model: Any) -> set[Any]:
    return {f.rel_model for f in model._meta.sorted_fields if isinstance(f, ForeignKeyField)}


def _table(model: Any) -> Table:
    key = model._meta.primary_key
    fields = [key, *(f for f in model._meta.sorted_fields if f is not key and f.column_name not in _DATABASE_MAKES)]
    return Table(
        name=model._meta.table_name,
        columns=tuple(f.column_name for f in fields),
        readers=tuple(_reader(f) for f in fields),
        is_counted=type(key).__name__ == "BigAutoField",
    )


def _reader(given: Field) -> Callable[[Any], Value]:
    """Makes of what a driver hands over what every driver would."""
    kind = given.rel_field if isinstance(given, ForeignKeyField) else given
    if isinstance(kind, UtcDateTimeField):
        return _moment
    return _number if isinstance(kind, BooleanField | IntegerField | BigIntegerField) else _text


def _moment(value: Any) -> Value:
    moment: str | None = _MOMENT.db_value(_MOMENT.python_value(value))
    return moment


def _number(value: Any) -> Value:
    return None if value is None else int(value)


def _text(value: Any) -> Value:
    return None if value is None else value if isinstance(value, str) else str(value)


@dataclass
class Tally:
    """How many rows, and a digest of them that does not depend on their order: no two databases sort alike."""

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
    """Where rows come from: a database, or a backup's files."""

    def count(self, table: Table) -> int: ...

    def chunks(self, table: Table) -> Iterator[list[Row]]:
        """All rows, some at a time; memory is bounded. Raises `TransferProblem` for a row that cannot be read."""

    def next_number(self, table: Table) -> int:
        """What the next row of a counted table would be called; numbers of deleted rows are not used again."""


def tally_of(rows: Rows, table: Table, on_rows: Callable[[int], None] | None = None) -> Tally:
    """Count and digest of all rows. `on_rows` is told how many have just been read."""
    tally = Tally()
    for chunk in rows.chunks(table):
        tally.add(chunk)
        if on_rows is not None:
            on_rows(len(chunk))
    return tally


def quoted(database: Database, name: str) -> str:
    """A table's or column's name, for SQL text."""
    mark = str(database.quote)[0]
    return f"{mark}{name}{mark}"
