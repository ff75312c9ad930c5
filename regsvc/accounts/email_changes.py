"""Change of a user's e-mail address: verified by a code, confirmed by the password, announced to the old address."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from peewee import IntegrityError

from regsvc.accounts.access import AccountAccess, AccountForUpdate
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker, require_account_owner
from regsvc.auth.entitlement import find_rights
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.verification_codes import CodeOrProof, VerificationCodes
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.rights import Team
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker, violates_unique
from regsvc.database.models import User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.reconciler import Reconciler
from regsvc.users.email_owners import claim
from regsvc.users.password_notices import PasswordNotices


@dataclass(frozen=True)
class EmailChangeResult:
    """The address in force now, and warnings about the player's row."""

    email: str
    warnings: tuple[str, ...]


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
    ) -> EmailChangeResult:
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
    ) -> EmailChangeResult:
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
        return EmailChangeResult(address.display, tuple(sorted(warnings)))

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
