"""Types of the fixtures in `tests/support/fixtures.py`, and a way to fill a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from regsvc.auth.sessions import Sessions
from regsvc.database.models import BaseModel, User

KEY = b"the signing key, of more than thirty-two bytes"
FORMER_KEY = b"the former key, of more than thirty-two bytes"

MakeUser = Callable[..., User]
MakeSessions = Callable[..., Sessions]


class InParallel(Protocol):
    """Calls a function on `threads` threads at once and returns the results, exceptions included."""

    def __call__(self, rule: Callable[[], Any], threads: int) -> list[Any]: ...


def insert_rows(model: type[BaseModel], rows: Sequence[Mapping[str, object]]) -> None:
    """Insert many rows, all with values of the same fields; those of other fields are their defaults.

    The statement is built once: peewee would build it around each value, which takes longer than the tests of a crowd.
    """
    meta = model._meta
    full = [{**meta.get_default_dict(), **row} for row in rows]
    fields = {name: meta.combined[name] for name in full[0]}
    columns = ", ".join(f"`{field.column_name}`" for field in fields.values())
    sql = f"INSERT INTO {meta.table_name} ({columns}) VALUES ({', '.join([meta.database.param] * len(fields))})"
    values = [[field.db_value(row[name]) for name, field in fields.items()] for row in full]
    with meta.database.atomic():
        meta.database.cursor().executemany(sql, values)
