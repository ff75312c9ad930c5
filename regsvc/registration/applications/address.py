"""Correction of addresses that nothing proves, while their applications wait for review."""

from collections.abc import Callable
from dataclasses import dataclass, field

from regsvc.accounts.captcha.captcha import CaptchaProof, Captchas
from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.errors import NotEnabled
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.notifications.mail.limits import MailLimits
from regsvc.registration.applications.pending import PendingApplications
from regsvc.registration.applications.status import may_correct_email


@dataclass(frozen=True)
class CorrectedAddress:
    """The address in force now, and the token that replaces the one presented."""

    email: str
    application_token: str = field(repr=False)


@dataclass(frozen=True)
class AddressCorrection:
    """Correction of an address that is a note for the moderators (`registration.methods`); nothing is mailed to it."""

    pending: PendingApplications
    worker: Worker
    email_policy: EmailPolicy
    captchas: Captchas
    mail_limits: MailLimits
    live: LiveConfig
    audit: Audit
    wake: Callable[[], None]
    """Wakes the open streams."""

    async def correct(self, token: str, email: str, captcha: CaptchaProof, caller: Caller) -> CorrectedAddress:
        """Replace the address; captchas and limits are those of codes.

        Raises `InvalidEmail`, `DomainNotAllowed`, `RateLimited`, the captcha's refusals, `ApplicationNotFound`,
        `WrongStatus`, and `NotEnabled` where the address is proven or codes are required.
        """
        address = self.email_policy.parse(email)
        with self.captchas.guard("verify_send", captcha, caller):
            corrected = await self.worker.run(self._correct, token, address, caller)
        self.wake()
        return corrected

    def _correct(self, token: str, address: EmailAddress, caller: Caller) -> CorrectedAddress:
        with self.pending.locked(token) as user:
            if not may_correct_email(user, requires_code=self.live.current.registration.requires_code):
                raise NotEnabled
            self.mail_limits.hit(address.mailbox, caller)
            user.email, user.email_key = address.display, None
            User.update(email=user.email, email_key=None).where(User.id == user.id).execute()
            self.audit.record("user.email_changed", user.username, user.username, {"why": "corrected"}, caller.address)
        return CorrectedAddress(address.display, self.pending.tokens.token_of(user))
