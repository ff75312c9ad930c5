"""Limits on the mails that unauthenticated clients may trigger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.shared_limits import SharedHit, SharedLimits, in_total
from regsvc.core.caller import Caller
from regsvc.core.units import RateLimit

Budget = Literal["mail", "forgot"]
"""What mails are counted as: codes and notices, or links for forgotten passwords."""


@dataclass(frozen=True)
class MailLimits:
    """Limits on mails triggered by unauthenticated clients: to one address, from one client or network, in total."""

    limits: DurableLimits
    budget: Budget
    per_address: tuple[RateLimit, ...]
    per_client: tuple[RateLimit, ...]
    total: tuple[RateLimit, ...]
    is_known: Callable[[str], bool]
    """Returns whether a user logged in from this client lately: it may use the reserve of the total."""
    on_used_up: Callable[[Budget], None]
    """Called when the total refuses a mail."""

    def hit(self, mailbox: str, caller: Caller, *, is_mailed: bool = True) -> int:
        """Count one mail in the caller's transaction; returns the seconds until the next one to this mailbox.

        `is_mailed` False: nothing is going to be mailed, so the total is not charged; all else is the same.
        Raises `RateLimited` without counting anything.
        """
        address, network = f"{self.budget}.address", caller.network_key

        def is_known() -> bool:
            return self.is_known(caller.limit_key)

        until_next, *_others = self.limits.hit_all(
            [
                (address, mailbox, self.per_address),
                (f"{self.budget}.client", caller.limit_key, self.per_client),
            ],
            [
                SharedHit(SharedLimits(address, self.per_address, subject=mailbox), network, is_known),
                SharedHit(
                    total_of(self.budget, self.total),
                    network,
                    is_known,
                    on_refused=lambda: self.on_used_up(self.budget),
                    is_counted=is_mailed,
                ),
            ],
        )
        return until_next


def total_of(budget: Budget, limits: Sequence[RateLimit]) -> SharedLimits:
    """Return the limits on all mails of a budget."""
    return in_total(f"{budget}.total", limits)
