"""Dates in `regsvc_user` that cannot be read: text that is none, which older SQLite databases accepted, zero dates.

`UtcDateTimeField` reads them as empty, or where a date is required as 1970, so that they concern nobody else's row.
"""

from dataclasses import dataclass
from typing import Any, Final

from peewee import SQL, Database, SqliteDatabase

from regsvc.database.models import User, UtcDateTimeField

_MAX_LENGTH: Final = 40
DATE_COLUMNS: Final = tuple(
    field.column_name
    for field in User._meta.sorted_fields
    if isinstance(field, UtcDateTimeField) and field is not User.changed_at
)


@dataclass(frozen=True)
class UnreadableDate:
    """A date that cannot be read, as it is stored."""

    username: str
    column: str
    value: str

    def __str__(self) -> str:
        return f"{self.column} of {self.username} is '{self.value}'"


def unreadable(column: str, *, is_sqlite: bool) -> str:
    """Return an SQL condition: the column holds a value that `UtcDateTimeField` cannot read, or SQL cannot compare."""
    if not is_sqlite:  # COALESCE: the parts of an empty date are NULL
        return f"COALESCE(YEAR({column}) = 0 OR MONTH({column}) = 0 OR DAYOFMONTH({column}) = 0, FALSE)"
    return (  # the modifier makes 30 February another day
        f"({column} IS NOT NULL AND ({column} < '0001' OR length({column}) NOT IN (10, 16, 19, 23) "
        f"OR substr(strftime('%Y-%m-%d %H:%M:%f', {column}, '+0 days'), 1, length({column})) IS NOT {column}))"
    )


def is_readable(database: Database, column: str) -> Any:
    """Return the opposite condition for a query of one table."""
    return SQL(f"NOT {unreadable(column, is_sqlite=isinstance(database, SqliteDatabase))}")


def unreadable_dates_sql(condition: str, *, is_sqlite: bool) -> str:
    """Return a query for id, name, and all dates of the users that meet a condition and have an unreadable date.

    The dates are as they are stored, empty where they can be read.
    """
    any_of = " OR ".join(unreadable(column, is_sqlite=is_sqlite) for column in DATE_COLUMNS)
    shown = ", ".join(
        f"CASE WHEN {unreadable(column, is_sqlite=is_sqlite)} THEN {_stored(column, is_sqlite=is_sqlite)} END "
        f"AS {column}"
        for column in DATE_COLUMNS
    )
    return f"SELECT username, {shown} FROM regsvc_user WHERE {condition} AND ({any_of})"  # noqa: S608


def dates_of(username: str, values: Any) -> list[UnreadableDate]:
    """Return the unreadable dates of a row of `unreadable_dates_sql`; `values` in the order of `DATE_COLUMNS`."""
    found = zip(DATE_COLUMNS, values, strict=True)
    return [UnreadableDate(username, column, _shown(value)) for column, value in found if value is not None]


def list_unreadable_dates(database: Database, condition: str, *values: object) -> list[UnreadableDate]:
    """Return the unreadable dates of the users that meet an SQL condition on `regsvc_user`."""
    sql = unreadable_dates_sql(condition, is_sqlite=isinstance(database, SqliteDatabase))
    rows = database.execute_sql(sql, values or None).fetchall()
    return [date for row in rows for date in dates_of(str(row[0]), row[1:])]


def _stored(column: str, *, is_sqlite: bool) -> str:
    return column if is_sqlite else f"CAST({column} AS CHAR)"  # a zero date is NULL for MySQL's driver


def _shown(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
