"""Event loop lag: whatever blocks the loop delays every request."""

import asyncio
from collections import deque
from datetime import timedelta
from typing import Final

_INTERVAL: Final = timedelta(seconds=5)  # rare, since every measurement wakes an idle process
_SAMPLES: Final = 12


class LoopLag:
    """Lag of the event loop: how late a repeated timer fires. Use on the event loop only."""

    def __init__(self, every: timedelta = _INTERVAL) -> None:
        self._every = every
        self._lags: deque[float] = deque(maxlen=_SAMPLES)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """The longest lag of the last minute; 0 before the first measurement."""
        return max(self._lags, default=0.0)

    def start(self) -> None:
        """Measure until `stop` is called. Requires a running loop."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + self._every.total_seconds()
        self._timer = loop.call_at(due_at, self._measure, due_at)

    def stop(self) -> None:
        """Stop measuring; does nothing if it was not started."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self, due_at: float) -> None:
        self._lags.append(asyncio.get_running_loop().time() - due_at)
        self.start()
