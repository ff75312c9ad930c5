"""Notices of changes to second factors: the audit log, and a mail to the user, who may not have made them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.caller import Caller
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import User
from regsvc.notifications.mail.queue import MailQueue

_LIMITS: Final = (RateLimit(10, timedelta(days=1)),)
"""How often a user may switch it on. Each time is two mails, and nobody may use up what the host can send."""


@dataclass(frozen=True)
class SecondFactorNotices:
    """Notices of what happens to second factors; each is written in the transaction of the change."""

    audit: Audit
    mail_queue: MailQueue
    limits: DurableLimits

    def enabled(self, user: User, caller: Caller) -> None:
        """Record that the user has switched the second factor on. Raises `RateLimited` if that happens too often."""
        self.limits.hit("totp.enabled", str(user.id), _LIMITS)
        self.audit.record("user.totp_enabled", user.username, user.username, ip=caller.address)
        self.mail_queue.send_totp_enabled(user)

    def disabled(self, user: User, caller: Caller) -> None:
        """Record that the user has switched the second factor off."""
        self.audit.record("user.totp_disabled", user.username, user.username, ip=caller.address)
        self.mail_queue.send_totp_disabled(user)

    def reset(self, user: User, by: Actor) -> None:
        """Record that an operator has removed the second factor."""
        self.audit.record("user.totp_disabled", by.name, user.username, ip=by.ip)
        self.mail_queue.send_totp_reset(user)

    def replaced_codes(self, user: User, caller: Caller) -> None:
        """Record that the user has got new recovery codes; nothing is mailed."""
        self.audit.record("user.recovery_codes_replaced", user.username, user.username, ip=caller.address)
