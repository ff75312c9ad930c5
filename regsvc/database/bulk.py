"""Bulk statements on thousands of rows, bypassing the query builder, which is slower than the database here.

Prepared queries are turned into SQL once, and then run with new values: building SQL takes peewee longer than the
database takes to answer. Every request, and every look into the outbox, needs some.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from peewee import (
    SQL,
    CharField,
    Database,
    Field,
    ForeignKeyField,
    IntegerField,
    Model,
    MySQLDatabase,
    TextField,
    Value,
    fn,
)
from peewee import __exception_wrapper__ as translating_exceptions  # type: ignore[attr-defined]
from pymysql.constants import SERVER_STATUS
from pymysql.converters import escape_string

from regsvc.core.clock import SKEW
from regsvc.database.models import BaseModel

T = TypeVar("T")

_ROWS_PER_STATEMENT: Final = 500
_ROWS_OF_SQLITE: Final = 250
"""Rows of a long INSERT. As triggers may refuse it, SQLite copies every page that a statement changes, to undo it."""
_PLAIN_TYPES: Final = frozenset({str, int, bool, float, bytes, type(None)})
"""Types that every driver accepts as they are."""
_SEPARATOR: Final = "\x1f"
_AS_STORED: Final = (CharField, TextField, IntegerField, ForeignKeyField)
"""Fields whose values drivers return as they are."""


def execute_many(database: Database, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run the statement, with `?` as placeholder, once for each row. Raises peewee's exceptions."""
    with translating_exceptions:
        database.cursor().executemany(sql.replace("?", str(database.param)), rows)


def insert_rows(
    database: Database, model: type[Model], rows: Sequence[Mapping[str, Any]], *, overwrite: Sequence[Field] = ()
) -> None:
    """Insert rows that all name the same fields; the others get the database's defaults.

    With `overwrite`, a row whose primary key exists gets the new values of these fields.
    """
    if not rows:
        return
    columns = _columns_of(model, rows)
    into = f"INSERT INTO {model._meta.table_name} ({', '.join(columns)}) VALUES "  # noqa: S608
    names = [field.column_name for field in overwrite]
    if not isinstance(database, MySQLDatabase):
        marks, conflict = ", ".join("?" * len(columns)), ""
        if names:
            assigned, key = ", ".join(map("{0} = excluded.{0}".format, names)), model._meta.primary_key
            assert isinstance(key, Field), "it is one column"
            conflict = f" ON CONFLICT ({key.column_name}) DO UPDATE SET {assigned}"
        whole = len(rows) // _ROWS_OF_SQLITE * _ROWS_OF_SQLITE
        every = list(zip(*columns.values(), strict=True))
        for size, some in ((_ROWS_OF_SQLITE, every[:whole]), (1, every[whole:])):
            sql = f"{into}{', '.join([f'({marks})'] * size)}{conflict}"
            parts = [list(chain.from_iterable(some[at : at + size])) for at in range(0, len(some), size)]
            execute_many(database, sql, parts)
        return
    assigned = ", ".join(map("{0} = VALUES({0})".format, names))
    conflict = f" ON DUPLICATE KEY UPDATE {assigned}" if names else ""
    for values in _literal_rows(database, columns.values()):
        _execute(database, f"{into}({'), ('.join(values)}){conflict}")


def update_rows(database: Database, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Update rows that all name the same fields, the primary key first.

    A server gets one statement for hundreds of rows: as many separate ones, however short, take longer.
    """
    if not rows:
        return
    columns = _columns_of(model, rows)
    key, *changed = columns
    keys, *changes = columns.values()
    assert model._meta.columns[key].primary_key, "the primary key comes first"
    table = model._meta.table_name
    if not isinstance(database, MySQLDatabase):
        assigned = ", ".join(map("{} = ?".format, changed))
        new = list(zip(*changes, keys, strict=True))
        execute_many(database, f"UPDATE {table} SET {assigned} WHERE {key} = ?", new)  # noqa: S608
        return
    collation = " COLLATE utf8mb4_bin" if isinstance(keys[0], str) else ""
    literals = [_literals(database, values) for values in columns.values()]
    names = [f"c{number}" for number in range(len(columns))]
    assigned = ", ".join(map("t.{} = new.{}".format, changed, names[1:]))
    for start in range(0, len(keys), _ROWS_PER_STATEMENT):
        rows_of_page = list(zip(*(column[start : start + _ROWS_PER_STATEMENT] for column in literals), strict=True))
        key_value, *others = rows_of_page[0]
        named = [f"{key_value}{collation} AS c0", *map("{} AS {}".format, others, names[1:])]
        union = " UNION ALL SELECT ".join([", ".join(named), *map(", ".join, rows_of_page[1:])])
        _execute(
            database,
            f"UPDATE (SELECT {union}) new "  # noqa: S608
            f"STRAIGHT_JOIN {table} t ON t.{key} = new.c0 SET {assigned}",
        )


def redate(now: datetime, stamp: Any, *others: Any) -> None:
    """Let rows that were stamped before the clock was set back count from now; other moments of theirs follow."""
    model = stamp.model
    fields = [model._meta.primary_key, stamp, *others]
    rows = []
    for found, was, *moments in model.select(*fields).where(stamp > now + SKEW).tuples():
        moved = [None if moment is None else moment - (was - now) for moment in moments]
        rows.append(dict(zip([field.name for field in fields], [found, now, *moved], strict=True)))
    update_rows(model._meta.database, model, rows)


def shift(moment: Any, step: timedelta, condition: Any) -> None:
    """Move this moment of all rows that meet the condition, however many, with one statement."""
    model, seconds = moment.model, step.total_seconds()
    moved = fn.strftime("%Y-%m-%d %H:%M:%f", moment, f"{seconds:+.3f} seconds")
    if isinstance(model._meta.database, MySQLDatabase):
        moved = fn.TIMESTAMPADD(SQL("MICROSECOND"), round(seconds * 1e6), moment)
    model.update({moment: moved}).where(condition).execute()


def select_rows(
    database: Database,
    model: type[Model],
    fields: Sequence[Field],
    key: Field,
    keys: Collection[Any],
    *,
    join: str = "",
    for_update: bool = False,
) -> list[tuple[Any, ...]]:
    """Return these fields of the rows whose `key` is one of `keys`, in no order; `for_update` locks the rows.

    `join` is SQL that joins the tables of fields of other models.
    """
    if not keys:
        return []
    columns, table = ", ".join(map(_column, fields)), model._meta.table_name
    sql = f"SELECT {columns} FROM {table} {join} WHERE {_column(key)} IN "  # noqa: S608
    if isinstance(database, MySQLDatabase):
        lock = " FOR UPDATE" if for_update else ""
        cursor = _execute(database, f"{sql}({', '.join(_literals(database, list(keys)))}){lock}")
    else:  # SQLite locks the whole file
        cursor = database.execute_sql(f"{sql}({', '.join('?' * len(keys))})", tuple(keys))
    rows: list[tuple[Any, ...]] = list(cursor.fetchall())
    converted = [number for number, field in enumerate(fields) if not isinstance(field, _AS_STORED)]
    if not rows or not converted:
        return rows
    values: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for number in converted:
        values[number] = [fields[number].python_value(value) for value in values[number]]
    return list(zip(*values, strict=True))


def _column(field: Field) -> str:
    return f"{field.model._meta.table_name}.{field.column_name}"


def _columns_of(model: type[Model], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of the fields that the rows name, as drivers accept them, by column."""
    columns = {}
    for name in rows[0]:
        field = model._meta.fields[name]
        values = [row[name] for row in rows]
        if values.count(values[0]) == len(values):  # one moment for all of them
            values = [field.db_value(values[0])] * len(values)
        elif not _PLAIN_TYPES.issuperset(map(type, values)):
            values = [value if type(value) in _PLAIN_TYPES else field.db_value(value) for value in values]
        columns[field.column_name] = values
    return columns


def _execute(database: Database, sql: str) -> Any:
    """Execute a statement that contains its values: every % in it is meant. Raises peewee's exceptions."""
    with translating_exceptions:
        cursor = database.cursor()
        cursor.execute(sql)
        return cursor


def _literal_rows(database: Database, columns: Iterable[list[Any]]) -> Iterator[list[str]]:
    """Yield the rows as SQL, in pages for one statement each."""
    literals = [_literals(database, values) for values in columns]
    rows = list(map(", ".join, zip(*literals, strict=True)))
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        yield rows[start : start + _ROWS_PER_STATEMENT]


def _literals(database: Database, values: list[Any]) -> list[str]:
    """Return the values of a column as SQL for MySQL and MariaDB, a value that all rows share escaped once.

    PyMySQL's own formatting of parameters takes three times as long.
    """
    if values.count(values[0]) == len(values):
        return [str(database.cursor().mogrify("%s", (values[0],)))] * len(values)
    connection = database.cursor().connection
    escape, encoders = connection.escape, connection.encoders
    if connection.server_status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES:  # a proxy may drop our sql_mode
        return [escape(value, encoders) for value in values]
    if {str}.issuperset(map(type, values)):  # escaped as one text, unless a value holds what separates them
        escaped = escape_string(_SEPARATOR.join(values)).split(_SEPARATOR)
        if len(escaped) == len(values):
            return [f"'{value}'" for value in escaped]
    return [f"'{escape_string(value)}'" if type(value) is str else escape(value, encoders) for value in values]


def insert_or_update(
    model: type[BaseModel], row: Mapping[Field, Any], *, unique: Sequence[Field], changes: Mapping[Field, Any]
) -> None:
    """Insert `row`; where its `unique` columns exist already, apply `changes` to the existing row instead.

    Either way the row is locked for us until the transaction ends.
    """
    upsert_query(model, [row], unique=unique, changes=changes).execute()


def upsert_query(
    model: type[BaseModel],
    rows: Sequence[Mapping[Any, Any]],
    *,
    unique: Sequence[Field],
    changes: Mapping[Field, Any] | None = None,
    overwrite: Sequence[Field] = (),
) -> Any:
    """Return a query that inserts rows; an existing one gets `changes` and the new values of the fields `overwrite`."""
    # MySQL checks every unique index and accepts no conflict target; SQLite requires one.
    target = None if isinstance(model._meta.database, MySQLDatabase) else tuple(unique)
    return model.insert_many(rows).on_conflict(conflict_target=target, update=changes, preserve=tuple(overwrite))


MAX_COUNT: Final = 100_000
"""Counting stops here: readers of so long a table want its newest page, not the exact total."""

_MAX_OFFSET: Final = 2**53


@dataclass(frozen=True)
class EntryPage(Generic[T]):
    """Entries of one page, newest first. `total` is None where more than `MAX_COUNT` rows match."""

    entries: tuple[T, ...]
    total: int | None
    has_next: bool


def find_page(
    model: Any,
    conditions: Sequence[Any],
    order: Sequence[Any],
    page: int,
    size: int,
    rows: Any,
    entry_of: Callable[[Any], T],
) -> EntryPage[T]:
    """Return one page (the first is 1) of the rows that meet all conditions; empty past the end.

    `rows` is the query that reads the rows of a page, each of which `entry_of` converts.
    """
    offset = (page - 1) * size
    if offset > _MAX_OFFSET:
        return EntryPage((), _count(model, conditions), has_next=False)
    # ids alone: skipping rows is cheap in an index and expensive in the table
    query = model.select(model.id).where(*conditions) if conditions else model.select(model.id)
    found = [row.id for row in query.order_by(*order).limit(size + 1).offset(offset)]
    ids = found[:size]
    by_id = {row.id: row for row in rows.where(model.id.in_(ids))} if ids else {}
    entries = tuple(entry_of(by_id[entry_id]) for entry_id in ids if entry_id in by_id)
    total = None if found and offset > MAX_COUNT else _count(model, conditions)
    return EntryPage(entries, total, has_next=len(found) > size)


def _count(model: Any, conditions: Sequence[Any]) -> int | None:
    matching = model.select(model.id).limit(MAX_COUNT + 1)
    if conditions:
        matching = matching.where(*conditions)
    total: int = model.select(fn.COUNT(1)).from_(matching.alias("matching")).scalar()
    return total if total <= MAX_COUNT else None


@dataclass(frozen=True)
class _Slot:
    """Stands in a built query for a value that is given later."""

    name: str
    convert: Callable[[Any], Any]


@dataclass(frozen=True)
class _Compiled:
    """The SQL of a query for one database, its parameters (`_Slot` or a constant), and the fields it selects.

    Each field comes with the name of the foreign key to its table, None for the query's own table.
    """

    database: Database
    sql: str
    parameters: tuple[Any, ...]
    fields: tuple[tuple[str | None, Field], ...]


def slot(field: Any, name: str | None = None) -> Any:
    """Return the place of a value of this field; without a `name` it is given under the field's name."""
    return Value(_Slot(name or field.name, field.db_value), converter=False, unpack=False)


class PreparedQuery:
    """Query whose values are `slot`s, on one table and those it refers to. Runs in the caller's transaction.

    Values are passed by name.
    """

    def __init__(self, model: type[BaseModel], build: Callable[[], Any]) -> None:
        """`build` returns the query; it is called once for each database that the model gets bound to."""
        self._model = model
        self._build = build
        self._compiled: _Compiled | None = None

    def first(self, **values: Any) -> Any:
        """Return the first row with the selected fields, or None."""
        return next(iter(self.rows(**values)), None)

    def rows(self, **values: Any) -> list[Any]:
        """Return all rows, with the selected fields."""
        compiled, cursor = self._run(values)
        return [self._row(compiled.fields, row) for row in cursor.fetchall()]

    def execute(self, **values: Any) -> int:
        """Run a statement that changes rows; returns how many it found."""
        return int(self._run(values)[1].rowcount)

    def _run(self, values: dict[str, Any]) -> tuple[_Compiled, Any]:
        """Execute the query, compiled before it runs first; returns its form and a cursor."""
        database = self._model._meta.database
        compiled = self._compiled
        if compiled is None or compiled.database is not database:
            query = self._build()
            sql, parameters = query.sql()
            fields = tuple((self._key_to(field), field) for field in getattr(query, "_returning", None) or ())
            compiled = _Compiled(database, sql, tuple(parameters), fields)
            self._compiled = compiled
        parameters = [
            part.convert(values[part.name]) if isinstance(part, _Slot) else part for part in compiled.parameters
        ]
        return compiled, database.execute_sql(compiled.sql, parameters)

    def _key_to(self, field: Field) -> str | None:
        """Return the name of the foreign key to the field's table."""
        if field.model is self._model:
            return None
        key: Field = self._model._meta.model_refs[field.model][0]
        return str(key.name)

    def _row(self, fields: tuple[tuple[str | None, Field], ...], found: tuple[Any, ...]) -> Any:
        row: Any = self._model(__no_default__=True)
        for (key, field), value in zip(fields, found, strict=True):
            owner = row
            if key is not None:
                owner = row.__rel__.get(key)
                if owner is None:
                    owner = row.__rel__[key] = field.model(__no_default__=True)
            owner.__data__[field.name] = field.python_value(value)
        return row
