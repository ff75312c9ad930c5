"""Deletion of a user by the user: the effects of an admin's deletion, permanently."""

from collections.abc import Callable
from dataclasses import dataclass

from regsvc.accounts.access import AccountAccess, LockedAccount
from regsvc.accounts.decisions import Accounts, DecisionResult
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker, require_account_owner
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import Review, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.users.reapplication import find_reapply_at
from regsvc.users.transitions import DecisionDetails


@dataclass(frozen=True)
class SelfDeletion:
    """Deletion of the user of a session.

    It does not undo a decision: a ban revokes every session, and a rejected name stays reserved for `reapply_after`.
    Operators cannot delete themselves: anyone could then register their name in the game.
    """

    access: AccountAccess
    worker: Worker
    checker: PasswordChecker
    accounts: Accounts
    mail_queue: MailQueue
    is_operator: Callable[[str], bool]
    live: LiveConfig
    now: Clock

    async def delete(self, session: VerifiedSession, password: str, totp: str | None, caller: Caller) -> DecisionResult:
        """Delete the session's user.

        Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), `ProtectedOperator` and
        `WrongStatus`.
        """
        identity = await self.checker.check_owner_with_totp(session, password, totp, caller)
        decided = await self.worker.run(self._delete, identity, caller)
        self.mail_queue.wake()
        return decided

    def _delete(self, identity: LoginIdentity, caller: Caller) -> DecisionResult:
        def work(locked: LockedAccount) -> str:
            require_account_owner(locked.user, identity)
            self.accounts.apply_sql_edit(locked)
            user = locked.user
            require_account_owner(user, identity)
            self._require_deletable(user)
            if not self.checker.use_second_factor(identity, user.id, caller):
                raise errors.TotpRequired
            self.accounts.delete(locked, Actor(user.username, caller.address), DecisionDetails(is_silent=True))
            self._remove_address(user)
            return str(user.status)

        status, warnings = self.access.change(identity.key, work, if_missing=errors.Unauthorized)
        return DecisionResult(identity.username, None, tuple(sorted(warnings)), status)

    def _require_deletable(self, user: User) -> None:
        if self.is_operator(user.username):
            raise errors.ProtectedOperator
        reapply_after = self.live.current.registration.reapply_after
        reapply_at = find_reapply_at(
            user.status, user.reviewed_at, reapply_after, self.now(), may_reapply=user.may_reapply
        )
        if reapply_at is not None:
            raise errors.WrongStatus(user.status)

    def _remove_address(self, user: User) -> None:
        """Remove the e-mail address from the user's reviews, which stay as history of the name, and mail the user."""
        is_own = (Review.username_key == user.username_key) & (Review.user_id == user.id)
        Review.update(email_key=None).where(is_own).execute()
        last = Review.select(Review.id).where(is_own).order_by(Review.id.desc()).first()
        self.mail_queue.send_account_deleted(user, last.id)
