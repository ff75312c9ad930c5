"""Bulk statements on thousands of rows, bypassing the query builder, which is slower than the database here."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from peewee import CharField, Database, Field, ForeignKeyField, IntegerField, Model, MySQLDatabase, TextField
from peewee import __exception_wrapper__ as translating_exceptions  # type: ignore[attr-defined]

_ROWS_PER_STATEMENT: Final = 500
_PLAIN_TYPES: Final = frozenset({str, int, bool, float, bytes, type(None)})
"""Types that every driver accepts as they are."""
_AS_STORED: Final = (CharField, TextField, IntegerField, ForeignKeyField)
"""Fields whose values drivers return as they are."""


def execute_many(database: Database, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run the statement, with `?` as placeholder, once for each row. Raises peewee's exceptions."""
    with translating_exceptions:
        database.cursor().executemany(sql.replace("?", str(database.param)), rows)


def insert_rows(database: Database, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all name the same fields; the others get the database's defaults."""
    if not rows:
        return
    columns = _columns_of(model, rows)
    names = ", ".join(field.column_name for field in columns)
    into = f"INSERT INTO {model._meta.table_name} ({names}) VALUES "  # noqa: S608
    if not isinstance(database, MySQLDatabase):
        marks = ", ".join("?" * len(columns))
        execute_many(database, f"{into}({marks})", list(zip(*columns.values(), strict=True)))
        return
    values = _ServerValues(database, columns.values())
    template = f"({', '.join(values.expressions)})"
    for page in values.pages():
        database.execute_sql(into + ", ".join([template] * len(page)), _flat(page))


def update_rows(database: Database, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Update rows that all name the same fields, the primary key first.

    A server gets one statement for hundreds of rows: as many separate ones, however short, take longer.
    """
    if not rows:
        return
    columns = _columns_of(model, rows)
    (key, keys), *changes = columns.items()
    assert key.primary_key, "the primary key comes first"
    table = model._meta.table_name
    if not isinstance(database, MySQLDatabase):
        assigned = ", ".join(f"{field.column_name} = ?" for field, _values in changes)
        new = list(zip(*(values for _field, values in changes), keys, strict=True))
        execute_many(database, f"UPDATE {table} SET {assigned} WHERE {key.column_name} = ?", new)  # noqa: S608
        return
    values = _ServerValues(database, columns.values())
    expressions = list(values.expressions)
    expressions[0] += " COLLATE utf8mb4_bin" if isinstance(keys[0], str) else ""
    names = [f"c{number}" for number in range(len(columns))]
    named = ", ".join(f"{value} AS {name}" for value, name in zip(expressions, names, strict=True))
    other = f" UNION ALL SELECT {', '.join(values.expressions)}"
    assigned = ", ".join(
        f"t.{field.column_name} = new.{name}" for (field, _values), name in zip(changes, names[1:], strict=True)
    )
    for page in values.pages():
        database.execute_sql(
            f"UPDATE (SELECT {named}{other * (len(page) - 1)}) new "  # noqa: S608
            f"STRAIGHT_JOIN {table} t ON t.{key.column_name} = new.c0 SET {assigned}",
            _flat(page),
        )


def select_rows(
    database: Database,
    model: type[Model],
    fields: Sequence[Field],
    key: Field,
    keys: Collection[Any],
    *,
    for_update: bool = False,
) -> list[tuple[Any, ...]]:
    """Return these fields of the rows whose `key` is one of `keys`, in no order; `for_update` locks the rows."""
    if not keys:
        return []
    columns, marks = ", ".join(field.column_name for field in fields), ", ".join([str(database.param)] * len(keys))
    lock = " FOR UPDATE" if for_update and isinstance(database, MySQLDatabase) else ""  # SQLite locks the whole file
    table = model._meta.table_name
    sql = f"SELECT {columns} FROM {table} WHERE {key.column_name} IN ({marks}){lock}"  # noqa: S608
    rows: list[tuple[Any, ...]] = list(database.execute_sql(sql, tuple(keys)).fetchall())
    converted = {number for number, field in enumerate(fields) if not isinstance(field, _AS_STORED)}
    if not rows or not converted:
        return rows
    values: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for number in converted:
        values[number] = [fields[number].python_value(value) for value in values[number]]
    return list(zip(*values, strict=True))


def _columns_of(model: type[Model], rows: Sequence[Mapping[str, Any]]) -> dict[Field, list[Any]]:
    """Return the values of each field that the rows name, as drivers accept them."""
    columns = {}
    for name in rows[0]:
        field = model._meta.fields[name]
        values = [row[name] for row in rows]
        if not _PLAIN_TYPES.issuperset(map(type, values)):
            values = [value if type(value) in _PLAIN_TYPES else field.db_value(value) for value in values]
        columns[field] = values
    return columns


class _ServerValues:
    """Rows for statements to a server: a value that all rows share is escaped once, the others are parameters."""

    def __init__(self, database: Database, columns: Iterable[list[Any]]) -> None:
        self._varying: list[list[Any]] = []
        self._row_count = 0
        self.expressions: list[str] = []
        """SQL of each column."""
        cursor = database.cursor()
        for values in columns:
            self._row_count = len(values)
            if values.count(values[0]) == len(values):
                self.expressions.append(cursor.mogrify("%s", (values[0],)).replace("%", "%%"))
            else:
                self.expressions.append("%s")
                self._varying.append(values)

    def pages(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the parameters, row by row, in pages for one statement each."""
        rows = list(zip(*self._varying, strict=True)) if self._varying else [()] * self._row_count
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            yield rows[start : start + _ROWS_PER_STATEMENT]


def _flat(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [value for row in rows for value in row]
