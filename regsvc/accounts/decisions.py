"""Decisions about users: approve, reject, ban, unban and delete."""

from dataclasses import dataclass, replace

from peewee import Database

from regsvc.accounts.access import AccountAccess, Principal
from regsvc.accounts.player_warnings import PlayerWarnings, warn_if_players_away
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.database.audit import Actor
from regsvc.database.models import APPROVED, BANNED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.users.transitions import DecisionDetails, Transitions


@dataclass(frozen=True)
class DecisionResult:
    """The outcome of a decision. `status` None: the user is deleted; `status_before` None: not known."""

    username: str
    status: str | None
    warnings: tuple[str, ...] = ()
    status_before: str | None = None


class Accounts:
    """Decisions, carried out on both our user and AuthMe's player. Blocking: for a worker thread."""

    def __init__(
        self,
        database: Database,
        access: AccountAccess,
        reconciler: Reconciler,
        transitions: Transitions,
        player_warnings: PlayerWarnings,
        now: Clock,
    ) -> None:
        self._database = database
        self._access = access
        self._reconciler = reconciler
        self._transitions = transitions
        self._player_warnings = player_warnings
        self._now = now

    def decide(self, username: str, transition: str, by: Principal, details: DecisionDetails) -> DecisionResult:
        """Approve, reject, ban, unban or delete.

        Raises `UserNotFound`, `WrongStatus`, `ProtectedOperator`, and `InvalidField` for a ban that ends in the past.
        """
        if details.expires_at is not None and details.expires_at <= self._now():
            raise errors.InvalidField("expiresAt")
        key = username.lower()
        warnings = self._access.reconcile_first(key)
        with self._database.atomic():
            user = self._access.get_for_update(key)
            self._access.require_permission(user, transition, by)
            self.apply_sql_edit(user)
            status_before = user.status
            warnings |= self._player_warnings.before(transition, key)
            if transition == "delete":
                warnings |= self.delete(user, by.actor, details)
                result = DecisionResult(user.username, None, status_before=status_before)
            else:
                changed = self._change(user, transition, by.actor, details)
                result = DecisionResult(changed.username, changed.status, status_before=status_before)
            warnings |= self.reconcile_in_transaction(key)
        warnings |= self.reconcile_after_commit(key)
        return replace(result, warnings=tuple(sorted(warnings)))

    def apply_sql_edit(self, user: User) -> bool:
        """Apply a status set with SQL first, as the older decision. Returns whether there was one to apply."""
        if user.status == user.applied_status:
            return False
        self._transitions.apply_sql_edits([user])
        return True

    def delete(self, user: User, by: Actor, details: DecisionDetails) -> set[str]:
        """Delete the user inside the caller's transaction; both reconcile methods follow. Returns warnings."""
        warnings = warn_if_players_away(self._reconciler.record_tombstone, str(user.username_key))
        self._transitions.delete(user, by, details)
        return warnings

    def reconcile_in_transaction(self, key: str) -> set[str]:
        """Let the player's row follow where it can be written in the caller's transaction. Returns warnings.

        Comes last in the transaction: the game waits for the lock on AuthMe's row.
        """
        return warn_if_players_away(self._reconciler.reconcile_in_transaction, key)

    def reconcile_after_commit(self, key: str) -> set[str]:
        """Let the player's row follow where it needs a transaction of its own. Returns warnings."""
        return warn_if_players_away(self._reconciler.reconcile_after_commit, key)

    def _change(self, user: User, transition: str, by: Actor, details: DecisionDetails) -> User:
        if transition == "ban" and user.status == BANNED:
            return self._transitions.change_ban(user, by, details)
        if transition == "approve" and user.status == APPROVED and self._reconciler.can_request_row(user.username_key):
            changed = self._transitions.approve_again(user, by, details)
        else:
            changed = self._transitions.change(user, transition, by, details)
        if transition == "approve":
            warn_if_players_away(self._reconciler.request_row, user.username_key)
        return changed
