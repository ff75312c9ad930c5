"""Conversion of the services' records to reply types with the same fields."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeVar

from regsvc.api.types.messages import Output, Reply, milliseconds_of

Plain = TypeVar("Plain", bound=Output)


_ENVELOPE: Final = frozenset(Reply.__struct_fields__)


def to_reply(kind: type[Plain], record: object, **overrides: object) -> Plain:
    """Return a reply type filled from the record's attributes; times become epoch milliseconds, tuples lists.

    `overrides` has the fields that the record lacks, or that differ in the reply. `success` and `message` never come
    from the record.
    """
    names = (name for name in kind.__struct_fields__ if name not in overrides and name not in _ENVELOPE)
    return kind(**overrides, **{name: _plain(getattr(record, name)) for name in names})


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return milliseconds_of(value)
    return list(value) if isinstance(value, tuple) else value
