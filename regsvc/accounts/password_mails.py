"""Mails with a link that sets a password: requested by an admin, or by a user who forgot the password."""

from dataclasses import dataclass

from peewee import Database

from regsvc.accounts.access import Principal
from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.password_store import PasswordStore
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.notifications.mail.limits import MailLimits
from regsvc.notifications.mail.queue import MailQueue
from regsvc.users.credential_rules import CredentialRules
from regsvc.users.email_owners import find_holder


@dataclass(frozen=True)
class PasswordMails:
    """Mailing of password links."""

    database: Database
    worker: Worker
    mail_queue: MailQueue
    mail_limits: MailLimits
    store: PasswordStore
    rules: CredentialRules
    captchas: Captchas

    async def mail_link(self, username: str, by: Principal) -> DecisionResult:
        """Mail a user a link to choose a password, for an admin.

        Raises `MailUnavailable`, `UserNotFound`, `ProtectedOperator`, and `PasswordRequired` for a user without an
        e-mail address.
        """
        self.mail_queue.require_available()
        result = await self.worker.run(self._mail_link, username, by)
        self.mail_queue.wake()
        return result

    async def forgot(self, email: str, caller: Caller, captcha: CaptchaProof = NO_PROOF) -> None:
        """Mail a link to the user with this address, if there is one; the reply does not tell.

        Raises `MailUnavailable`, `InvalidEmail`, `RateLimited` and the captcha's refusals.
        """
        self.mail_queue.require_available()
        address = parse_email(email)
        with self.captchas.guard("forgot", captcha, caller):
            await self.worker.run(self._forgot, address, caller)
        self.mail_queue.wake()

    def _mail_link(self, username: str, by: Principal) -> DecisionResult:
        owner = self.store.get_owner(username, by)
        with self.database.atomic():
            user = User.get_by_id(owner.user_id)
            if user.email_key is None:
                raise errors.PasswordRequired
            self.mail_queue.send_password_link(user)
        return DecisionResult(user.username, user.status)

    def _forgot(self, address: EmailAddress, caller: Caller) -> None:
        with self.database.atomic():
            user = find_holder(address)
            # to the mailbox on record: one that differs in case may be another person's
            to = EmailAddress(str(user.email), address.key) if user else address
            is_known = user is not None and not self._is_unproven_operator(user)
            may_mail = self.mail_limits.may_mail(address.mailbox, caller, is_known=is_known)
            self.mail_queue.send_reset_password(to, caller.language, user.id if user and may_mail else None)

    def _is_unproven_operator(self, user: User) -> bool:
        """Whether an operator's address is unverified: an address in AuthMe's table proves nothing, and an operator's
        account is worth stealing.
        """
        return not user.is_email_verified and self.rules.is_operator(user.username)
