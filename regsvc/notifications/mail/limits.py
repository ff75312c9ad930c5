"""Limits on the mails that unauthenticated clients may trigger."""

from dataclasses import dataclass

from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.caller import Caller
from regsvc.core.units import RateLimit


@dataclass(frozen=True)
class MailLimits:
    """Limits on mails triggered by unauthenticated clients: to one address, from one client, in total."""

    limits: DurableLimits
    per_address: tuple[RateLimit, ...]
    per_client: tuple[RateLimit, ...]
    total: tuple[RateLimit, ...]

    def hit(self, email_key: str, caller: Caller) -> int:
        """Count one mail in the caller's transaction; returns the seconds until the next one to this address.

        Raises `RateLimited` without counting anything.
        """
        until_next, *_others = self.limits.hit_all(
            [
                ("mail.address", email_key, self.per_address),
                ("mail.client", caller.limit_key, self.per_client),
                ("mail.total", "", self.total),
            ]
        )
        return until_next
