"""A clock that advances only when a test says so."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Returns the time when called: an aware UTC datetime in whole milliseconds."""

    def __init__(self) -> None:
        self._moment = datetime(2031, 5, 4, 12, 0, 0, 123000, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._moment

    def advance(self, **amount: float) -> None:
        """Move the clock by `seconds=`, `minutes=`, `hours=` or `days=`; negative amounts move it back."""
        self._moment += timedelta(**amount)
