"""How often a client may ask for statuses; programs of the host's own, such as a proxy plugin, ask as they like."""

from collections.abc import Callable, Sequence

from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core.caller import Caller
from regsvc.core.units import RateLimit


class StatusLimits:
    """In memory and for the event loop alone."""

    def __init__(
        self, limits: MemoryLimits, status_limit: Sequence[RateLimit], is_trusted: Callable[[str], bool]
    ) -> None:
        """`is_trusted` tells by address whether a client is one of `http.trusted_clients`."""
        self._limits = limits
        self.status_limit = status_limit
        self._is_trusted = is_trusted

    def hit(self, caller: Caller) -> None:
        """Count one question. Raises `RateLimited`."""
        if self.status_limit and not self._is_trusted(caller.address):
            self._limits.hit("status.client", caller.limit_key, self.status_limit)
