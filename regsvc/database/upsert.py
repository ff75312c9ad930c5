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
    # MySQL checks every unique index and accepts no conflict target; SQLite requires one.
    target = None if isinstance(model._meta.database, MySQLDatabase) else tuple(unique)
    model.insert(row).on_conflict(conflict_target=target, update=changes).execute()
