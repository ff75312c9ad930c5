"""Replies made of the records that rules give, where both have the same fields."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from regsvc.api.types.messages import Output, milliseconds_of

Plain = TypeVar("Plain", bound=Output)


def to_reply(kind: type[Plain], record: object, **given: object) -> Plain:
    """A reply type with the record's values; times become epoch milliseconds, tuples lists.

    `given`: the fields that the record does not have, or that are told otherwise.
    """
    names = (name for name in kind.__struct_fields__ if name not in given)
    return kind(**given, **{name: _plain(getattr(record, name)) for name in names})


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return milliseconds_of(value)
    return list(value) if isinstance(value, tuple) else value
