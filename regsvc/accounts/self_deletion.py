"""Users who delete themselves: what an admin's deletion does, by the owner's hand and for good."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from peewee import Database

from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.login import Logins
from regsvc.accounts.login_lookup import LoginIdentity, get_owner
from regsvc.accounts.player_warnings import warn_if_players_away
from regsvc.auth.totp import use_time_step
from regsvc.core import errors
from regsvc.core.caller import Caller, Session
from regsvc.core.clock import Clock
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import REJECTED, Review, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.reconciler import Reconciler
from regsvc.users.transitions import DecisionDetails, Transitions


@dataclass(frozen=True)
class SelfDeletion:
    """Deletes the owner of a session.

    Nobody gets rid of a decision this way: a ban ends every session, and a rejected name stays held for
    `reapply_after`. No operator either: his name would be free for whoever registers it in the game next.
    """

    database: Database
    worker: Worker
    logins: Logins
    reconciler: Reconciler
    transitions: Transitions
    mail_queue: MailQueue
    is_operator: Callable[[str], bool]
    reapply_after: timedelta
    now: Clock

    async def delete(self, session: Session, password: str, totp: str | None, caller: Caller) -> DecisionResult:
        """Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), `ProtectedOperator` and
        `WrongStatus`.
        """
        candidate = await self.logins.check_owner_with_totp(session, password, totp, caller)
        decided = await self.worker.run(self._delete, candidate, caller)
        self.mail_queue.wake()
        return decided

    def _delete(self, candidate: LoginIdentity, caller: Caller) -> DecisionResult:
        key = candidate.key
        with self.database.atomic():
            user = get_owner(self.database, candidate)
            if user.status != user.applied_status:  # somebody typed SQL: what he meant comes first
                self.transitions.carry_out_edit(user)
                user = get_owner(self.database, candidate)
            self._require_deletable(user)
            if candidate.totp_step is not None and not use_time_step(user.id, candidate.totp_step):
                raise errors.TotpRequired
            warnings = warn_if_players_away(self.reconciler.record_tombstone, key)
            self.transitions.delete(user, Actor(user.username, caller.address), DecisionDetails())
            self._forget_address(user)
            warnings |= warn_if_players_away(self.reconciler.reconcile_in_transaction, key)
        warnings |= warn_if_players_away(self.reconciler.reconcile_after_commit, key)
        return DecisionResult(user.username, None, tuple(sorted(warnings)), user.status)

    def _require_deletable(self, user: User) -> None:
        if self.is_operator(user.username):
            raise errors.ProtectedOperator
        is_held = user.reviewed_at is not None and user.reviewed_at + self.reapply_after > self.now()
        if user.status == REJECTED and is_held:
            raise errors.WrongStatus(user.status)

    def _forget_address(self, user: User) -> None:
        """The reviews stay as history of the name; whose mailbox it was does not. The owner is told a last time."""
        is_his = (Review.username_key == user.username_key) & (Review.user_id == user.id)
        Review.update(email_key=None).where(is_his).execute()
        last = Review.select(Review.id).where(is_his).order_by(Review.id.desc()).first()
        self.mail_queue.send_account_deleted(user, last.id)
