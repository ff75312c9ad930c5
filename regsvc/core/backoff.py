"""Back-off: leave a failing service alone for a while instead of hammering it."""

import logging
import random
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Final

log = logging.getLogger(__name__)

_MAX_EXPONENT: Final = 20  # beyond any `longest` in use, and far from overflow

MAX_FAILURES: Final = 5
"""Consecutive failures that open a circuit breaker."""

OPEN_FOR: Final = timedelta(minutes=1)
"""How long an open circuit breaker allows no request."""


def backoff_delay(failures: int, first: timedelta, longest: timedelta, growth: float = 2.0) -> timedelta:
    """Return the wait after so many consecutive failures (at least 1): `first`, then growing up to `longest`."""
    factor: float = growth ** min(failures - 1, _MAX_EXPONENT)
    return min(first * factor, longest)


class Backoff:
    """Doubling pauses while a service keeps failing. After each pause, one attempt decides about the next."""

    def __init__(
        self, first: timedelta, longest: timedelta, clock: Callable[[], float] = monotonic, *, spread: float = 0.0
    ) -> None:
        """`clock` counts seconds and never goes back. `spread`: share by which a pause may be shorter or longer."""
        self._first = first
        self._longest = longest
        self._clock = clock
        self._spread = spread
        self._failures = 0
        self._until = 0.0

    @property
    def is_active(self) -> bool:
        """Return whether the last attempt failed."""
        return self._failures > 0

    def extend(self, at_least: timedelta = timedelta()) -> None:
        """Start the next pause; ignored during one, since several attempts met the same outage.

        The pause lasts `at_least` so long from now on, if the service asked for that.
        """
        asked_until = self._clock() + at_least.total_seconds()
        if self.remaining() == 0:
            self._failures += 1
            pause = backoff_delay(self._failures, self._first, self._longest)
            pause *= random.uniform(1 - self._spread, 1 + self._spread)  # noqa: S311 - jitter
            self._until = self._clock() + pause.total_seconds()
        self._until = max(self._until, asked_until)

    def reset(self) -> None:
        """End the pause: the service works again."""
        self._failures = 0
        self._until = 0.0

    def remaining(self) -> float:
        """Return the seconds until an attempt may be made, 0 if it may be made now."""
        return max(0.0, self._until - self._clock()) if self.is_active else 0.0


class CircuitBreaker:
    """Circuit breaker for the requests to a service.

    After `MAX_FAILURES` in a row it stops them, then lets one through every `OPEN_FOR`. Call `allows` before each
    request, and report its outcome. For the event loop alone.
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        """`name` is the service's name in the log."""
        self._name = name
        self._failures = 0
        self._pause = Backoff(OPEN_FOR, OPEN_FOR, clock)

    def allows(self) -> bool:
        """Return whether a request may be made now. After the pause one may; the others wait for its outcome."""
        if self._failures < MAX_FAILURES:
            return True
        if self._pause.remaining() > 0:
            return False
        self._pause.extend()
        return True

    def succeed(self) -> None:
        """Record that the service answered as it should."""
        if self._failures >= MAX_FAILURES:
            log.info("%s answers again", self._name)
        self._failures = 0
        self._pause.reset()

    def fail(self) -> None:
        """Record that the service is unreachable, slow, or gave an unusable answer: the pause starts now."""
        self._failures += 1
        if self._failures == MAX_FAILURES:
            log.warning("%s failed %d times in a row; it is left alone for a while", self._name, MAX_FAILURES)
        if self._failures >= MAX_FAILURES:
            self._pause.reset()
            self._pause.extend()
