"""Upsert in one statement, in the dialect of the database in use."""

from collections.abc import Mapping, Sequence
from typing import Any

from peewee import Field, MySQLDatabase

from regsvc.database.models import BaseModel


def insert_or_update(
    model: type[BaseModel], row: Mapping[Field, Any], *, unique: Sequence[Field], changes: Mapping[Field, Any]
) -> None:
    """Insert `row`; where its `unique` columns exist already, apply `changes` to the existing row instead.

    Either way the row is locked for us until the transaction ends.
    """
    upsert_query(model, [row], unique=unique, changes=changes).execute()


def upsert_query(
    model: type[BaseModel],
    rows: Sequence[Mapping[Field, Any]],
    *,
    unique: Sequence[Field],
    changes: Mapping[Field, Any] | None = None,
    overwrite: Sequence[Field] = (),
) -> Any:
    """Return a query that inserts rows; an existing one gets `changes` and the new values of the fields `overwrite`."""
    # MySQL checks every unique index and accepts no conflict target; SQLite requires one.
    target = None if isinstance(model._meta.database, MySQLDatabase) else tuple(unique)
    return model.insert_many(rows).on_conflict(conflict_target=target, update=changes, preserve=tuple(overwrite))
