"""The field of our models that peewee lacks: a moment in UTC."""

from datetime import UTC, datetime
from typing import Any, Final

from peewee import Field

UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Read in place of a required date that cannot be read."""


class UtcDateTimeField(Field):
    """An aware UTC datetime; a DATETIME(3) in SQL, on SQLite the same as text that sorts by time."""

    field_type = "DATETIME(3)"

    def db_value(self, value: datetime | None) -> str | None:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(" ", "milliseconds")[:-6]  # without the offset

    def python_value(self, value: Any) -> datetime | None:
        """Return the stored moment; of a value that is none, which SQL users may have typed, None or `UNKNOWN`."""
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else _parse(str(value))
        if moment is None:
            return None if self.null else UNKNOWN
        return moment.replace(tzinfo=UTC)


def _parse(text: str) -> datetime | None:
    """Parse a date with or without time, as `db_value` writes it; None for anything else."""
    if text[4:5] != "-" or text[7:8] != "-" or text[10:11] not in ("", " "):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # also a zero date, which MySQL's driver returns as text
        return None
    return moment if moment.tzinfo is None else None
