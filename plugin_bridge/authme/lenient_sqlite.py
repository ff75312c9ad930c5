"""AuthMe's SQLite file as one reads it who must expect anything in it.

SQLite keeps in every column whatever somebody wrote: texts that are no UTF-8, blobs, numbers and dates as text. Java
reads them all, and so do we: bytes that are no UTF-8 become U+FFFD, as in AuthMe. What is compared is what was read.
"""

from typing import Any, Final

from peewee import OP, BigIntegerField, Case, Expression, Field, Node, SqliteDatabase, fn

UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are no UTF-8."""

_LARGEST: Final = (1 << 63) - 1  # what a BIGINT holds


class LenientSqlite(SqliteDatabase):
    """A connection to a file that is not ours."""

    def __init__(self, uri: str, busy_timeout: float) -> None:
        super().__init__(uri, uri=True, timeout=busy_timeout)
        self.register_function(as_text, "as_text", 1)
        self.register_function(as_number, "as_number", 1)

    def _connect(self) -> Any:
        connection = super()._connect()  # type: ignore[misc]
        connection.text_factory = as_text
        return connection


def is_exactly(field: Field, value: str | int | None) -> Node:
    """Whether the column would be read as this value, NULL included."""
    if isinstance(field, BigIntegerField):
        as_bytes = Case(None, [(fn.typeof(field) == "text", field.cast("BLOB"))], field)
        return Expression(fn.as_number(as_bytes), OP.IS, value)
    if isinstance(value, str) and UNREADABLE in value:
        return Expression(fn.as_text(field.cast("BLOB")), OP.IS, value)
    return Expression(field.cast("TEXT"), OP.IS, value)


def as_text(raw: bytes) -> str:
    """The text that these bytes are, with U+FFFD where they are none."""
    return raw.decode("utf-8", "replace")


def as_number(raw: object) -> int | None:
    """The number in a column that SQLite lets hold anything; None when it is none, or too large to be stored."""
    try:
        number = int(as_text(raw) if isinstance(raw, bytes) else raw)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -_LARGEST <= number <= _LARGEST else None
