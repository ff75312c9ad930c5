"""A circuit breaker: a service that keeps failing is left alone for a while, then tried with one request."""

import logging
from datetime import timedelta
from typing import Final

from regsvc.core.clock import Clock

log = logging.getLogger(__name__)

FAILURES: Final = 5
"""So many in a row open the circuit."""

PAUSE: Final = timedelta(minutes=1)
"""How long an open circuit lets nothing through."""


class Circuit:
    """Ask `allows` before each request and report how it went. For the event loop alone."""

    def __init__(self, name: str, now: Clock) -> None:
        """`name` is what the log calls the service."""
        self._name = name
        self._now = now
        self._failures = 0
        self._left_alone_until = now()

    def allows(self) -> bool:
        """Whether a request may be made. After the pause one may; the others wait for how that one went."""
        if not self._is_open:
            return True
        wait = self._left_alone_until - self._now()
        if timedelta(0) < wait <= PAUSE:  # a longer one is from before the clock was set back
            return False
        self._pause()
        return True

    def succeed(self) -> None:
        """The service answered as it should."""
        if self._is_open:
            log.info("%s answers again", self._name)
        self._failures = 0

    def fail(self) -> None:
        """The service is away, slow, or answers what nobody asked."""
        self._failures += 1
        if self._failures == FAILURES:
            log.warning("%s failed %d times in a row and is left alone for a while", self._name, FAILURES)
        if self._is_open:
            self._pause()

    @property
    def _is_open(self) -> bool:
        return self._failures >= FAILURES

    def _pause(self) -> None:
        self._left_alone_until = self._now() + PAUSE
