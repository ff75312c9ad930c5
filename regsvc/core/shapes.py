"""Shapes of what is sent as it is recorded: camelCase in JSON, and times in epoch milliseconds."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta

from regsvc.core.clock import epoch_ms, from_epoch_ms

LAST_MILLISECOND: Final = 253_402_300_799_999  # of the year 9999

EpochMilliseconds = Annotated[
    int,
    Meta(
        ge=0,
        le=LAST_MILLISECOND,
        description="Milliseconds since 1970-01-01, UTC.",
        examples=[1_790_000_000_000],
    ),
]
"""A time in a request, and in what other programs are sent."""
Moment = Annotated[
    datetime, Meta(tz=True, description="Milliseconds since 1970-01-01, UTC.", examples=[1_790_000_000_000])
]
"""A time in a reply: epoch milliseconds in JSON (`encode_output`, `openapi.make_schemas`)."""

Username = Annotated[str, Meta(description="The player's name.", examples=["Alice"], extra={"is_name": True})]
"""In a request, white space at its ends is removed: see `regsvc.http.messages.Request`."""


class Output(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all structs in replies. A field is always present, unless its type includes `UnsetType`."""

    def __repr__(self) -> str:
        """Omit the values: they may be tokens."""
        return f"<{type(self).__name__}>"


def to_datetime(milliseconds: int | None) -> datetime | None:
    """Convert epoch milliseconds to a UTC time; None stays None."""
    return None if milliseconds is None else from_epoch_ms(milliseconds)


def encode_output(output: Any, **more: object) -> bytes:
    """Return a struct as JSON, in which times are epoch milliseconds; `more`: further fields."""
    if not more and not _has_times(output.__class__):
        return msgspec.json.encode(output)
    plain = to_plain(output)
    return msgspec.json.encode({**plain, **more} if more else plain)


def to_plain(output: Any) -> Any:
    """Return a struct as plain data, in which times are epoch milliseconds."""
    plain = msgspec.to_builtins(output, builtin_types=(datetime,))
    _write_times(plain)
    return plain


@cache
def _has_times(kind: type) -> bool:
    """Return whether a value of this type may contain a time; of plain data that is not known."""
    return not issubclass(kind, msgspec.Struct) or any(_may_be_time(it.type) for it in msgspec.structs.fields(kind))


def _may_be_time(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _has_times(annotation)
    return annotation in (datetime, object, Any) or any(map(_may_be_time, get_args(annotation)))


_SCALARS: Final = frozenset((str, int, bool, float, type(None)))


def _write_times(value: Any) -> None:
    """Replace times in plain data by epoch milliseconds."""
    members = value.items() if type(value) is dict else enumerate(value)
    for place, member in members:
        kind = type(member)
        if kind is datetime:
            value[place] = epoch_ms(member)
        elif kind not in _SCALARS:
            _write_times(member)
