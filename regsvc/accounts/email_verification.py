"""Proof of e-mail addresses: verification codes, mailed on request and redeemed by the operation they are for."""

from dataclasses import dataclass

from peewee import Database

from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.auth.verification_codes import Purpose, VerificationCodes
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress, EmailPolicy, parse_email
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.notifications.mail.limits import MailLimits
from regsvc.notifications.mail.queue import MailQueue
from regsvc.users.chat_links import find_linked_owner
from regsvc.users.email_owners import find_owner


@dataclass(frozen=True)
class CodeSent:
    """Seconds until the next code may be requested, and seconds this one is valid."""

    remaining_seconds: int
    expires_in_seconds: int


@dataclass(frozen=True)
class EmailVerification:
    """Issues, mails, checks and redeems verification codes."""

    database: Database
    worker: Worker
    codes: VerificationCodes
    mail_queue: MailQueue
    mail_limits: MailLimits
    email_policy: EmailPolicy
    captchas: Captchas
    live: LiveConfig

    async def send_code(
        self, email: str, purpose: Purpose, caller: Caller, captcha: CaptchaProof = NO_PROOF
    ) -> CodeSent:
        """Mail a code, or a notice to an address that is taken; the reply does not tell which.

        Raises `MailUnavailable`, `RegistrationClosed`, `NotEnabled`, `InvalidEmail`, `DomainNotAllowed`, `RateLimited`
        and the captcha's refusals.
        """
        self.mail_queue.require_available()
        if purpose == "register" and not self.live.current.registration.open:
            raise errors.RegistrationClosed
        if purpose == "unlink" and not self.live.current.chat.platform:
            raise errors.NotEnabled
        address = self.parse(email)
        with self.captchas.guard("verify_send", captcha, caller):
            sent = await self.worker.run(self._issue, address, purpose, caller)
        self.mail_queue.wake_mails()
        return sent

    def parse(self, email: str) -> EmailAddress:
        """Return an address that the host accepts. Raises `InvalidEmail` and `DomainNotAllowed`."""
        address = parse_email(email)
        self.email_policy.check(address)
        return address

    def is_right(self, address: EmailAddress, purpose: Purpose, code: str, caller: Caller) -> bool:
        """Return whether the code may be redeemed now; a wrong one is counted, in its own transaction. Blocking.

        Raises `RateLimited` after too many wrong codes of the caller's network.
        """
        with self.database.atomic():
            return self.codes.verify(address.key, purpose, code, caller)

    def redeem(self, address: EmailAddress, purpose: Purpose, code: str, caller: Caller) -> None:
        """Spend the code inside the caller's transaction; `is_right` must come first. Raises `InvalidCode`."""
        self.codes.redeem(address.key, purpose, code, caller)

    def _issue(self, address: EmailAddress, purpose: Purpose, caller: Caller) -> CodeSent:
        with self.database.atomic():
            linked = find_linked_owner(address) if purpose == "unlink" else None
            remaining = self.mail_limits.hit(address.mailbox, caller)
            row_id = self.codes.issue(address.key, purpose, caller)  # the same writes, whether it is mailed or not
            if purpose == "unlink":
                self._mail_unlink_code(address, caller, row_id, linked)
            elif (holder := find_owner(address)) is None:
                self.mail_queue.send_verification_code(address, caller.language, row_id)
            else:
                proven = EmailAddress(str(holder.email), address.key)
                self.mail_queue.send_already_registered(proven, caller.language, holder.id)
        return CodeSent(remaining, round(self.codes.valid.total_seconds()))

    def _mail_unlink_code(self, address: EmailAddress, caller: Caller, row_id: int, holder: User | None) -> None:
        """Mail the code only to a user with this verified address and a linked chat account."""
        proven = address if holder is None else EmailAddress(str(holder.email), address.key)
        self.mail_queue.send_unlink_code(proven, caller.language, row_id, None if holder is None else holder.id)
