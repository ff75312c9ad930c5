"""How often one may try to log in: per client, per account and client, and a delay per account.

In memory and for the event loop alone.
"""

from collections.abc import Sequence

from regsvc.auth.login_delays import LoginDelays
from regsvc.auth.rate_limits import Demand, MemoryLimits
from regsvc.core.caller import Caller
from regsvc.core.units import RateLimit


class LoginLimits:
    """What a login asks before it costs anything, and what it tells afterwards."""

    def __init__(self, limits: MemoryLimits, delays: LoginDelays, login_limits: Sequence[RateLimit]) -> None:
        self._limits = limits
        self._delays = delays
        self.login_limits = login_limits

    def hit(self, name: str, caller: Caller) -> None:
        """Count one try of a name as it was typed. Raises `RateLimited`."""
        self._limits.hit_all(self._demands(name, caller))

    def begin_try(self, account: str, caller: Caller, *, is_known_client: bool) -> None:
        """Count the try as failed before the password is looked at; raises `RateLimited` while the account is delayed.

        `is_known_client`: this account logged in from there lately, and strangers' failures do not delay it.
        """
        known_client = caller.limit_key if is_known_client else None
        self._delays.check(account, known_client)
        self._delays.failed(account, known_client)

    def succeeded(self, name: str, account: str, caller: Caller) -> None:
        """The password was right: what was counted for this name on the way is forgotten, for the client too.

        The client's tries of other names stay counted: else somebody with an account of his own would log in now and
        then, and guess at the others without end.
        """
        (client_scope, client, _client_limits), (name_scope, named, _name_limits) = self._demands(name, caller)
        self._limits.give_back(client_scope, client, self._limits.hits_of(name_scope, named))
        self._limits.clear(name_scope, named)
        self._delays.cleared(account, caller.limit_key)

    def forgiven(self, account: str, caller: Caller, *, is_known_client: bool) -> None:
        """The try under way was no failure, but it does not clear earlier ones either."""
        self._delays.forgiven(account, caller.limit_key if is_known_client else None)

    def _demands(self, name: str, caller: Caller) -> list[Demand]:
        return [
            ("login.client", caller.limit_key, self.login_limits),
            ("login.account", f"{name.strip().lower()} {caller.limit_key}", self.login_limits),
        ]
