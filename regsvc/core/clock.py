"""Time as used throughout: aware, UTC, whole milliseconds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

Clock = Callable[[], datetime]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

SKEW: Final = timedelta(minutes=1)
"""How far the clocks of two processes may differ. What is stored as of later than that is from before a clock was set
back, and is not believed.
"""


def is_over(since: datetime, period: timedelta, now: datetime) -> bool:
    """Return whether a period that began then is over, or began before the clock was set back."""
    return not -SKEW <= now - since < period


class ClockWatch:
    """Tells when the clock was set, by a clock that never is."""

    def __init__(self, now: Clock, steady: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._steady = steady
        self.restart()

    def restart(self, seen: datetime | None = None) -> None:
        """Compare with the clock of this moment, or, if that is later, as it was when it said `seen`."""
        ahead = timedelta() if seen is None else max(seen - self._now(), timedelta())
        self._difference = self._measure() + ahead

    def find_step(self) -> timedelta:
        """Return how far the clock was set forward, negative: back, since `restart`; zero if by less than `SKEW`."""
        step = self._measure() - self._difference
        return step if abs(step) > SKEW else timedelta()

    def _measure(self) -> timedelta:
        return self._now() - datetime.fromtimestamp(self._steady(), UTC)


def now() -> datetime:
    """Return the current time in whole milliseconds, the precision of stored times."""
    return to_milliseconds(datetime.now(UTC))


def to_milliseconds(moment: datetime) -> datetime:
    """Truncate a time to milliseconds, as a DATETIME(3) column does."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def epoch_ms(moment: datetime) -> int:
    """Return whole milliseconds since 1970, the unit of times in JSON and in AuthMe's table.

    Raises TypeError for a naive time.
    """
    return (moment - _EPOCH) // _MILLISECOND


def from_epoch_ms(milliseconds: int) -> datetime:
    """Convert milliseconds since 1970. Raises OverflowError for years that no datetime can have."""
    return _EPOCH + timedelta(milliseconds=milliseconds)
