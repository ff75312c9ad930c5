"""Prepared queries: queries of a fixed shape, which peewee turns into SQL once and which then run with new values.

Building SQL takes peewee longer than the database takes to answer: for the queries that every request, and every look
into the outbox, needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peewee import Database, Field, Value

from regsvc.database.models import BaseModel


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
