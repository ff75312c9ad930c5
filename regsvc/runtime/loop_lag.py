"""How late the event loop is: whatever keeps it busy keeps every request waiting."""

import asyncio
from collections import deque
from datetime import timedelta
from typing import Final

_EVERY: Final = timedelta(seconds=5)  # seldom, since every look wakes an idle process
_KEPT: Final = 12


class LoopLag:
    """Sets itself an alarm again and again, and sees how late it rings. For the event loop alone."""

    def __init__(self, every: timedelta = _EVERY) -> None:
        self._every = every
        self._lags: deque[float] = deque(maxlen=_KEPT)
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """The longest lag of the last minute; 0 before the first look."""
        return max(self._lags, default=0.0)

    def start(self) -> None:
        """Look until `stop`. Called on the loop."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + self._every.total_seconds()
        self._alarm = loop.call_at(due_at, self._ring, due_at)

    def stop(self) -> None:
        """Look no more; nothing happens if it was not started."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self, due_at: float) -> None:
        self._lags.append(asyncio.get_running_loop().time() - due_at)
        self.start()
