"""Access to accounts by admins and the command line: loading them for a decision, and permission to decide."""

from collections.abc import Callable
from dataclasses import dataclass

from peewee import Database

from regsvc.accounts.player_warnings import warn_if_players_away
from regsvc.core import errors
from regsvc.database.audit import Actor
from regsvc.database.models import User
from regsvc.sync.reconciler import Reconciler


@dataclass(frozen=True)
class Principal:
    """The principal behind a decision.

    The command line is unrestricted; operators cannot act on operators of the same or a higher level.
    """

    actor: Actor
    may_do_everything: bool = False


class AccountAccess:
    """Loader of accounts for a decision, which also checks the principal's permission.

    Blocking: for a worker thread.
    """

    def __init__(self, database: Database, reconciler: Reconciler, level_of: Callable[[str], int]) -> None:
        """`level_of` returns the operator level of a name; 0: not an operator."""
        self._database = database
        self._reconciler = reconciler
        self._level_of = level_of

    def reconcile_first(self, key: str) -> set[str]:
        """Bring the account up to date before a decision; a player without a user is adopted. Returns warnings.

        Mass changes that are held back wait for a sync run, or for the decision itself.
        """
        return warn_if_players_away(lambda name: self._reconciler.reconcile(name, is_guarded=True), key)

    def get_for_update(self, key: str) -> User:
        """Return the user, locked until the transaction ends. Raises `UserNotFound`."""
        user = self.find_for_update(key)
        if user is None:
            raise errors.UserNotFound
        return user

    def find_for_update(self, key: str) -> User | None:
        """Return the user of this lower-case name, locked until the transaction ends, or None."""
        query = User.select().where(User.username_key == key)
        user: User | None = (query.for_update() if self._database.for_update else query).first()
        return user

    def require_permission(self, user: User, action: str, by: Principal) -> None:
        """Raise `ProtectedOperator` where operators would harm themselves, their equals or their superiors.

        `action` is a transition or "password".
        """
        if by.may_do_everything or action in ("approve", "unban"):
            return
        level = self._level_of(user.username)
        is_self = user.username_key == by.actor.name.lower()
        if is_self or (level > 0 and level >= self._level_of(by.actor.name)):
            raise errors.ProtectedOperator
