"""Time as used throughout: aware, UTC, whole milliseconds."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    """Return the current time in whole milliseconds, the precision of stored times."""
    return to_milliseconds(datetime.now(UTC))


def to_milliseconds(moment: datetime) -> datetime:
    """Truncate a time to milliseconds, as a DATETIME(3) column does."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def epoch_ms(moment: datetime) -> int:
    """Return milliseconds since 1970, the unit of times in JSON and in AuthMe's table."""
    return round(moment.timestamp() * 1000)


def from_epoch_ms(milliseconds: int) -> datetime:
    """Convert milliseconds since 1970. Raises OverflowError or ValueError for years that no datetime can have."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
