"""Limits of wrong codes per network."""

from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Final

from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core.caller import Caller
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit

_SCOPE: Final = "code.network"


class GuessLimits:
    """Limits of wrong codes per network, in memory. Safe from any thread.

    A wrong code counts once it was compared: of several at once, as many more are compared as there are threads.
    """

    def __init__(self, limits: MemoryLimits, per_network: Sequence[RateLimit]) -> None:
        self._limits = limits
        self._per_network = per_network
        self._lock = Lock()

    def check(self, caller: Caller) -> None:
        """Raise `RateLimited` if the caller's network has shown too many wrong codes."""
        with self._lock:
            self._limits.check(_SCOPE, caller.network_key, self._per_network)

    def count(self, caller: Caller) -> None:
        """Count a wrong code."""
        with self._lock, suppress(RateLimited):
            self._limits.hit(_SCOPE, caller.network_key, self._per_network)
