"""Decisions about users: approve, reject, ban, unban and delete."""

from dataclasses import dataclass, replace

from regsvc.accounts.access import AccountAccess, LockedAccount, Principal
from regsvc.accounts.player_warnings import PlayerWarnings
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.names import name_key
from regsvc.database.audit import Actor
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED
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
        access: AccountAccess,
        reconciler: Reconciler,
        transitions: Transitions,
        player_warnings: PlayerWarnings,
        now: Clock,
    ) -> None:
        self._access = access
        self._reconciler = reconciler
        self._transitions = transitions
        self._player_warnings = player_warnings
        self._now = now

    def decide(self, username: str, transition: str, by: Principal, details: DecisionDetails) -> DecisionResult:
        """Approve, reject, ban, unban or delete.

        Raises `UserNotFound`, `WrongStatus`, `ProtectedOperator`, `PlayerReplaced`, and `InvalidField` for a ban that
        ends in the past.
        """
        if details.expires_at is not None and details.expires_at <= self._now():
            raise errors.InvalidField("expiresAt")

        def work(locked: LockedAccount) -> DecisionResult:
            self._access.require_permission(locked.user.username, transition, by)
            return self._decide(locked, transition, by.actor, details)

        result, warnings = self._access.change(name_key(username), work, reconciles_first=True)
        return replace(result, warnings=tuple(sorted({*result.warnings, *warnings})))

    def _decide(self, locked: LockedAccount, transition: str, by: Actor, details: DecisionDetails) -> DecisionResult:
        self.apply_sql_edit(locked)
        user, status_before = locked.user, locked.user.status
        warnings = tuple(self._player_warnings.before(transition, locked.account))
        if transition == "delete":
            self.delete(locked, by, details)
            return DecisionResult(user.username, None, warnings, status_before)
        self._change(locked, transition, by, details)
        return DecisionResult(locked.user.username, locked.user.status, warnings, status_before)

    def apply_sql_edit(self, locked: LockedAccount) -> None:
        """Apply a status set with SQL first, as the older decision."""
        if locked.user.status != locked.user.applied_status:
            self._transitions.apply_sql_edits([locked.user])
            locked.take_user()

    def delete(self, locked: LockedAccount, by: Actor, details: DecisionDetails) -> None:
        """Delete the user inside the caller's transaction, and record which row goes with it."""
        locked.account = self._reconciler.record_tombstone(locked.account)
        self._transitions.delete(locked.user, by, details)

    def _require_same_player(self, locked: LockedAccount) -> None:
        """Check that an operator's row is still the one that made the name a user.

        An approval, or the end of a ban before one, gives the row to the user: to the player who registered the name
        first, if another has it by now.
        Raises `PlayerReplaced`, and `AuthMeUnavailable` where the row cannot be read.
        """
        user, account = locked.user, locked.account
        status = user.banned_from if user.status == BANNED else user.status
        is_waiting_operator = account.is_operator and user.origin == "adopted" and status in (PENDING, REJECTED)
        if not is_waiting_operator or not self._reconciler.policy.is_bridge_on:
            return
        if not account.is_player_known:
            raise errors.AuthMeUnavailable
        if account.own_player is None:
            raise errors.PlayerReplaced

    def _may_approve_again(self, locked: LockedAccount) -> bool:
        return locked.is_opened or self._reconciler.can_request_row(locked.account)

    def _change(self, locked: LockedAccount, transition: str, by: Actor, details: DecisionDetails) -> None:
        user = locked.user
        if transition in ("approve", "unban"):
            self._require_same_player(locked)
        if transition == "ban" and user.status == BANNED:
            locked.user = self._transitions.change_ban(user, by, details)
        elif transition == "approve" and user.status == APPROVED and self._may_approve_again(locked):
            locked.user = self._transitions.approve_again(user, by, details)
        else:
            locked.user = self._transitions.change(user, transition, by, details)
        locked.take_user()
        if transition == "approve":
            locked.intended = self._reconciler.request_row(locked.account)
