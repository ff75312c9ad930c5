"""A clock that moves when a test says so."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Called, it tells the time: an aware UTC moment in whole milliseconds."""

    def __init__(self) -> None:
        self._moment = datetime(2031, 5, 4, 12, 0, 0, 123000, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._moment

    def advance(self, **amount: float) -> None:
        """By `seconds=`, `minutes=`, `hours=` or `days=`; negative amounts set it back."""
        self._moment += timedelta(**amount)
