"""Limits on the mails that unauthenticated clients may trigger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
    """Called when the total is used up for a mail."""

    def hit(self, mailbox: str, caller: Caller) -> int:
        """Count one mail in the caller's transaction; returns the seconds until the next one to this mailbox.

        Raises `RateLimited` without counting anything.
        """
        return self._hit(mailbox, caller, self._total(caller))

    def may_mail(self, mailbox: str, caller: Caller, *, is_known: bool) -> bool:
        """Count one mail that is sent to known addresses alone; returns whether it is to be sent.

        Only those that are sent are charged to the total, so a refusal because of it would tell what is known: nothing
        is sent, and nothing raised. Raises `RateLimited` because of the other limits.
        """
        is_used_up = False

        def on_refused() -> None:
            nonlocal is_used_up
            is_used_up = True
            self.on_used_up(self.budget)

        total = self._total(caller)
        self._hit(mailbox, caller, replace(total, on_refused=on_refused, is_counted=is_known, is_silent=True))
        return is_known and not is_used_up

    def _hit(self, mailbox: str, caller: Caller, total: SharedHit) -> int:
        address = f"{self.budget}.address"
        until_next, *_others = self.limits.hit_all(
            [
                (address, mailbox, self.per_address),
                (f"{self.budget}.client", caller.limit_key, self.per_client),
            ],
            [
                SharedHit(SharedLimits(address, self.per_address, subject=mailbox), caller.network_key, total.is_known),
                total,
            ],
        )
        return until_next

    def _total(self, caller: Caller) -> SharedHit:
        return SharedHit(
            total_of(self.budget, self.total),
            caller.network_key,
            lambda: self.is_known(caller.limit_key),
            on_refused=lambda: self.on_used_up(self.budget),
        )


def total_of(budget: Budget, limits: Sequence[RateLimit]) -> SharedLimits:
    """Return the limits on all mails of a budget."""
    return in_total(f"{budget}.total", limits)
