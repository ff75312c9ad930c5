"""Tolerant access to AuthMe's SQLite file: invalid UTF-8, blobs and wrong column types are accepted, as Java does.

SQLite stores any value in any column: texts that are not UTF-8, blobs, numbers and dates as text. Java reads all of
them, and so do we: bytes that are not UTF-8 become U+FFFD, as in AuthMe. Comparisons use the value as it was read.
"""

from collections.abc import Callable
from operator import methodcaller
from typing import Any, Final

from peewee import SqliteDatabase

from plugin_bridge.text import UNREADABLE

as_text: Final[Callable[[bytes], str]] = methodcaller("decode", "utf-8", "replace")
"""Decodes UTF-8, with U+FFFD for invalid bytes."""

_LARGEST: Final = (1 << 63) - 1  # of a BIGINT


class LenientSqlite(SqliteDatabase):
    """Connection to an SQLite file that another program owns."""

    def __init__(self, uri: str, busy_timeout: float) -> None:
        super().__init__(uri, uri=True, timeout=busy_timeout)
        self.register_function(as_text, "as_text", 1)
        self.register_function(as_number, "as_number", 1)

    def _connect(self) -> Any:
        connection = super()._connect()  # type: ignore[misc]
        connection.text_factory = as_text
        return connection


def is_exactly(column: str, is_number: bool, value: str | int | None) -> str:
    """Return a condition, with one parameter, for whether a column would be read as this value, NULL included."""
    if is_number:
        return f"as_number(CASE WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) ELSE {column} END) IS ?"
    if isinstance(value, str) and UNREADABLE in value:
        return f"as_text(CAST({column} AS BLOB)) IS ?"
    return f"CAST({column} AS TEXT) IS ?"


def as_number(raw: object) -> int | None:
    """Return a column's value as a number; None if it is not one, or too large to be stored."""
    if raw is None:
        return None
    try:
        number = int(as_text(raw) if isinstance(raw, bytes) else raw)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -_LARGEST <= number <= _LARGEST else None
