"""E-mail addresses of users: proven by mailed codes, and changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta
from msgspec.structs import replace
from peewee import Database, IntegrityError

from regsvc.accounts.access import AccountAccess, AccountForUpdate, Warnings
from regsvc.accounts.captcha import CAPTCHA_REFUSALS, NO_PROOF, CaptchaProof, CaptchaProtectedRequest, Captchas
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker, require_account_owner
from regsvc.auth.entitlement import find_rights
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.verification_codes import (
    NO_CODE_OR_PROOF,
    PROOF_LIFETIME,
    Code,
    CodeOrProof,
    CodeProof,
    Proof,
    Purpose,
    VerificationCodes,
)
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.rights import Team
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker, violates_unique
from regsvc.database.models import User
from regsvc.http.messages import Email, Password, Reply
from regsvc.http.route import PUBLIC, USER, Routes
from regsvc.notifications.mail.queue import MailLimits, MailQueue
from regsvc.sync.reconciler import Reconciler
from regsvc.users.chat_links import find_linked_owner
from regsvc.users.credential_rules import claim, find_owner
from regsvc.users.password_notices import PasswordNotices

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


# --- Proof of e-mail addresses ---
# Proof of e-mail addresses: verification codes are mailed on request, and exchanged for proofs that live longer.


class SendCodeReply(Reply, frozen=True, kw_only=True):
    """The code was mailed. The reply does not depend on whether the address has an account."""

    remaining_seconds: Annotated[int, Meta(description="Seconds until the next code may be requested.", examples=[60])]
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the code expires.", examples=[300])]


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
    ) -> SendCodeReply:
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

    def _issue_or_tell(self, address: EmailAddress, purpose: Purpose, caller: Caller) -> SendCodeReply:
        """Issue a code; if it is too early for another, tell the client that requested the last one."""
        try:
            return self._issue(address, purpose, caller)
        except errors.RateLimited as refusal:
            if not self.codes.was_requested_by(address.key, purpose, caller):
                raise
            valid = round(self.codes.valid.total_seconds())
            raise errors.RateLimited(refusal.retry_after or 1, fault="code_sent", expires_in_seconds=valid) from None

    def _issue(self, address: EmailAddress, purpose: Purpose, caller: Caller) -> SendCodeReply:
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
        return SendCodeReply(remaining_seconds=remaining, expires_in_seconds=round(self.codes.valid.total_seconds()))


class CheckCodeReply(Reply, frozen=True, kw_only=True):
    """The code is right. The proof stands for it, as long as a long questionnaire may take."""

    proof: Proof
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the proof expires.", examples=[3600])]


SEND_CODE_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.RegistrationClosed,
    errors.NotEnabled,
    *CAPTCHA_REFUSALS,
    errors.MailUnavailable,
)


@ROUTES.add("POST", "/api/verify/send", PUBLIC, *SEND_CODE_REFUSALS)
async def send_code(
    call: Call,
    verification: EmailVerification,
    request: CaptchaProtectedRequest,
    *,
    email: Email,
    purpose: Purpose = "register",
) -> SendCodeReply:
    """Mail a verification code. The response does not reveal whether the address has an account.

    SendCodeRequest: The address to mail a code to, and the purpose of the code.
    """
    if request.language is not None and request.language not in call.translations.languages:
        raise errors.InvalidField("language")
    sent = await verification.send_code(email, purpose, call.caller, request.captcha)
    return replace(sent, message=call.message("code_sent"))


@ROUTES.add(
    "POST",
    "/api/verify/check",
    PUBLIC,
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.InvalidCode,
    errors.RateLimited,
    errors.RegistrationClosed,
    errors.NotEnabled,
    errors.MailUnavailable,
)
async def check_code(
    call: Call,
    verification: EmailVerification,
    *,
    email: Email,
    code: Code,
    purpose: Purpose = "register",
) -> CheckCodeReply:
    """Exchange a right code for a proof that lives longer. A wrong code uses up an attempt.

    CheckCodeRequest: A code, with the address it was mailed to and the purpose it was requested for.
    """
    proof = await verification.check_code(email, purpose, code, call.caller)
    return CheckCodeReply(proof=proof, expires_in_seconds=round(PROOF_LIFETIME.total_seconds()))


# --- Change of a user's e-mail address ---
# Change of a user's e-mail address: verified by a code, confirmed by the password, announced to the old address.


class UpdateUserReply(Reply, frozen=True, kw_only=True):
    """The current, verified e-mail address."""

    email: Email
    warnings: Warnings


@dataclass(frozen=True)
class EmailChanges:
    """Change of a user's e-mail address, or verification of the current one.

    Sessions stay; mailed links are revoked. The notice to the old address does not name the new one, and is sent even
    if the account is gone by then: a thief would delete it next.
    """

    access: AccountAccess
    worker: Worker
    checker: PasswordChecker
    codes: VerificationCodes
    email_policy: EmailPolicy
    links: PasswordLinks
    mail_queue: MailQueue
    notices: PasswordNotices
    reconciler: Reconciler
    audit: Audit
    team: Team

    async def change_own(
        self, session: VerifiedSession, email: str, given: CodeOrProof, current_password: str | None, caller: Caller
    ) -> UpdateUserReply:
        """Change the address of the session's user. Without their password, the session has to be a fresh one.

        Operators need theirs in any case: front ends that cannot send it put tokens into addresses, which proxies log.

        Raises `InvalidEmail`, `DomainNotAllowed`, `WrongPassword` (counted as a failed login) or `LoginTooOld`,
        `InvalidCode` and, only after a right code, `EmailTaken`. A refusal spends nothing but an attempt at a wrong
        code.
        """
        address = self.email_policy.parse(email)
        if current_password is None:
            rights = await self.worker.run(find_rights, self.team, session.username)
            if session.audience == "admin" or rights.permissions:
                raise errors.LoginTooOld("operator", minutes=0)
            identity = await self.checker.recognize_owner(session, caller)
        else:
            identity = await self.checker.check_owner(session, current_password, caller)
        row = await self.worker.run(self.codes.check, address.key, "change_email", given, caller)
        redeem = partial(self.codes.redeem, row, given, caller)
        changed = await self.worker.run(self._change, identity, address, redeem, caller)
        self.mail_queue.wake_all()
        return changed

    def _change(
        self, identity: LoginIdentity, address: EmailAddress, redeem: Callable[[], None], caller: Caller
    ) -> UpdateUserReply:
        try:
            _done, warnings = self.access.change(
                identity.key,
                lambda locked: self._change_in_transaction(locked, identity, address, redeem, caller),
                if_missing=errors.Unauthorized,
            )
        except IntegrityError as error:  # another request verified the same address at the same time
            if not violates_unique(error):
                raise
            raise errors.EmailTaken from None
        return UpdateUserReply(email=address.display, warnings=tuple(sorted(warnings)))

    def _change_in_transaction(
        self,
        locked: AccountForUpdate,
        identity: LoginIdentity,
        address: EmailAddress,
        redeem: Callable[[], None],
        caller: Caller,
    ) -> None:
        redeem()
        user = locked.user
        require_account_owner(user, identity)
        claim(address.key, self.audit, claimant_id=user.id)
        self.links.revoke_all(user.id)
        self.audit.record("user.email_changed", Actor(user.username, caller.address), user.username)
        if user.email_key != address.key:
            self.notices.tell_of_address(user)
        user.email, user.email_key, user.is_email_verified = address.display, address.key, True
        changes = {"email": address.display, "email_key": address.key, "is_email_verified": True}
        User.update(changes).where(User.id == user.id).execute()
        locked.take_user()
        locked.intended = self.reconciler.clear_email_conflict(locked.account)


UPDATE_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.WrongPassword,
    errors.InvalidCode,
    errors.EmailTaken,
    errors.RateLimited,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/user/update", USER, *UPDATE_REFUSALS)
async def update_user(
    call: Call,
    email_changes: EmailChanges,
    *,
    email: Email,
    code: Code | None = None,
    proof: CodeProof | None = None,
    current_password: Password,
) -> UpdateUserReply:
    """Change your own e-mail address, or verify the current one. The old address is notified.

    UpdateUserRequest: The new e-mail address, with the code that was mailed to it (`purpose: change_email`).
    """
    given = CodeOrProof(code, proof)
    if given == NO_CODE_OR_PROOF:
        raise errors.InvalidField("code")
    return await change_email(call, email_changes, email, given, current_password)


async def change_email(
    call: Call, email_changes: EmailChanges, email: str, given: CodeOrProof, password: str | None
) -> UpdateUserReply:
    changed = await email_changes.change_own(call.require_session(), email, given, password, call.caller)
    return replace(changed, message=call.message("email_changed"))
