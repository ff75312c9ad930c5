"""Time as the whole program uses it: aware, UTC, whole milliseconds."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    """The present moment; what is stored and what is compared have the same precision."""
    return to_milliseconds(datetime.now(UTC))


def to_milliseconds(moment: datetime) -> datetime:
    """The moment without what a DATETIME(3) column would drop."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def epoch_ms(moment: datetime) -> int:
    """Milliseconds since 1970, as JSON and AuthMe's table carry times."""
    return round(moment.timestamp() * 1000)


def from_epoch_ms(milliseconds: int) -> datetime:
    """The inverse of `epoch_ms`. Raises OverflowError or ValueError on what no calendar holds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
