"""Proof of e-mail addresses: verification codes are mailed on request, and exchanged for proofs that live longer."""

from dataclasses import dataclass

from peewee import Database

from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.auth.verification_codes import Purpose, VerificationCodes
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.database.engine import Worker
from regsvc.notifications.mail.queue import MailLimits, MailQueue
from regsvc.users.chat_links import find_linked_owner
from regsvc.users.email_owners import find_owner


@dataclass(frozen=True)
class CodeSent:
    """Seconds until the next code may be requested, and seconds this one is valid."""

    remaining_seconds: int
    expires_in_seconds: int


@dataclass(frozen=True)
class EmailVerification:
    """Mails verification codes, and exchanges them for proofs."""

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
        self._require_enabled(purpose)
        address = self.email_policy.parse(email)
        with self.captchas.guard("verify_send", captcha, caller):
            sent = await self.worker.run(self._issue_or_tell, address, purpose, caller)
        self.mail_queue.wake_mails()
        return sent

    async def check_code(self, email: str, purpose: Purpose, code: str, caller: Caller) -> str:
        """Exchange a right code for a proof of the address, valid for `PROOF_LIFETIME`; the code stays valid, too.

        A wrong code uses up an attempt.

        Raises `MailUnavailable`, `RegistrationClosed`, `NotEnabled`, `InvalidEmail`, `DomainNotAllowed`, `InvalidCode`
        and `RateLimited`.
        """
        self._require_enabled(purpose)
        key = self.email_policy.parse(email).key
        return await self.worker.run(self.codes.prove, key, purpose, code, caller)

    def _require_enabled(self, purpose: Purpose) -> None:
        """Raise `MailUnavailable`, `RegistrationClosed` or `NotEnabled` where nobody needs a code for this."""
        self.mail_queue.require_available()
        if purpose == "register":
            self.live.require_open()
        if purpose == "unlink" and not self.live.current.chat.platform:
            raise errors.NotEnabled

    def _issue_or_tell(self, address: EmailAddress, purpose: Purpose, caller: Caller) -> CodeSent:
        """Issue a code; if it is too early for another, tell the client that requested the last one."""
        try:
            return self._issue(address, purpose, caller)
        except errors.RateLimited as refusal:
            if not self.codes.was_requested_by(address.key, purpose, caller):
                raise
            valid = round(self.codes.valid.total_seconds())
            raise errors.RateLimited(refusal.retry_after or 1, fault="code_sent", expires_in_seconds=valid) from None

    def _issue(self, address: EmailAddress, purpose: Purpose, caller: Caller) -> CodeSent:
        with self.database.atomic():
            linked = find_linked_owner(address) if purpose == "unlink" else None
            remaining = self.mail_limits.hit(address.mailbox, caller)
            row_id = self.codes.issue(address.key, purpose, caller)  # the same writes, whether it is mailed or not
            if purpose == "unlink":  # only a user with this verified address and a linked chat account is mailed
                proven = address if linked is None else EmailAddress(str(linked.email), address.key)
                user_id = None if linked is None else linked.id
                self.mail_queue.send_to(proven, caller.language, "unlink_code", user_id=user_id, verification_id=row_id)
            elif (holder := find_owner(address.key)) is None:
                self.mail_queue.send_to(address, caller.language, "verification_code", verification_id=row_id)
            else:
                proven = EmailAddress(str(holder.email), address.key)
                self.mail_queue.send_to(
                    proven, caller.language, "already_registered", user_id=holder.id, verification_id=row_id
                )
        return CodeSent(remaining, round(self.codes.valid.total_seconds()))
