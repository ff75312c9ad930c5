"""Types of the fixtures in `tests/support/fixtures.py`, and a way to fill a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from regsvc.auth.sessions import Sessions
from regsvc.database.bulk import insert_rows
from regsvc.database.models import BaseModel, User

KEY = b"the signing key, of more than thirty-two bytes"
FORMER_KEY = b"the former key, of more than thirty-two bytes"

MakeUser = Callable[..., User]
MakeSessions = Callable[..., Sessions]


class InParallel(Protocol):
    """Calls a function on `threads` threads at once and returns the results, exceptions included."""

    def __call__(self, rule: Callable[[], Any], threads: int) -> list[Any]: ...


def insert_whole(model: type[BaseModel], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert many rows that all name the same fields; the others get the model's defaults, as peewee would give them.

    peewee itself would build a statement around each value, which takes longer than the tests of a crowd.
    """
    meta = model._meta
    with meta.database.atomic():
        insert_rows(meta.database, model, [{**meta.get_default_dict(), **row} for row in rows])
