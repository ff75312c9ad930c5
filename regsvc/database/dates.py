"""Dates in `regsvc_user` that cannot be read: text that is none, which older SQLite databases accepted, zero dates.

`UtcDateTimeField` reads them as empty, or where a date is required as 1970, so that they concern nobody else's row.
"""

from dataclasses import dataclass
from typing import Any, Final

from peewee import SQL, Database, SqliteDatabase

from plugin_bridge.text import one_line
from regsvc.database.models import GENERATED, User, UtcDateTimeField

_MAX_LENGTH: Final = 40
DATE_COLUMNS: Final = tuple(
    field.column_name
    for field in User._meta.sorted_fields
    if isinstance(field, UtcDateTimeField) and field.column_name not in GENERATED | {"changed_at"}
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


def list_unreadable_dates(database: Database, condition: str, *values: object) -> list[UnreadableDate]:
    """Return the unreadable dates, as they are stored, of the users that meet an SQL condition on `regsvc_user`."""
    is_sqlite = isinstance(database, SqliteDatabase)
    conditions = {column: unreadable(column, is_sqlite=is_sqlite) for column in DATE_COLUMNS}
    shown = ", ".join(
        # a zero date is NULL for MySQL's driver
        f"CASE WHEN {is_unreadable} THEN {column if is_sqlite else f'CAST({column} AS CHAR)'} END"
        for column, is_unreadable in conditions.items()
    )
    sql = f"SELECT username, {shown} FROM regsvc_user WHERE {condition} AND ({' OR '.join(conditions.values())})"  # noqa: S608
    return [
        UnreadableDate(str(username), column, _shown(value))
        for username, *dates in database.execute_sql(sql, values or None).fetchall()
        for column, value in zip(DATE_COLUMNS, dates, strict=True)
        if value is not None
    ]


def _shown(value: object) -> str:
    return one_line(value if isinstance(value, bytes) else str(value), _MAX_LENGTH)
