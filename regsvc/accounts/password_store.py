"""Storage of passwords set through us: by the owner, by an admin or through a mailed link."""

from dataclasses import dataclass, field, replace

from peewee import Database

from regsvc.accounts.access import AccountAccess, Principal
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.player_warnings import PlayerWarnings, warn_if_players_away
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.sessions import Sessions
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import User
from regsvc.sync.reconciler import Reconciler


@dataclass(frozen=True)
class PasswordOwner:
    """The user whose password is to be set."""

    user_id: int
    username: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class PasswordStore:
    """Store that writes a new password to our user and AuthMe's player. Blocking: for a worker thread.

    A new password ends every session and every mailed link, and reaches the player's row at once, or when the row is
    unlocked.
    """

    database: Database
    access: AccountAccess
    reconciler: Reconciler
    sessions: Sessions
    links: PasswordLinks
    player_warnings: PlayerWarnings
    audit: Audit
    now: Clock

    def get_owner(self, username: str, by: Principal) -> PasswordOwner:
        """Return the user whose password the principal is about to set.

        Raises `UserNotFound` and `ProtectedOperator`.
        """
        key = username.lower()
        self.access.reconcile_first(key)
        with self.database.atomic():
            user = self.access.get_for_update(key)
            self.access.require_permission(user, "password", by)
        return PasswordOwner(user.id, user.username, user.username_key)

    def set(
        self, owner: PasswordOwner, stored: StoredPassword, by: Actor, *, token_generation: int | None = None
    ) -> DecisionResult:
        """Set the password in a transaction of its own. Parameters and refusals as in `set_in_transaction`."""
        with self.database.atomic():
            result = self.set_in_transaction(owner, stored, by, token_generation=token_generation)
        return self.reconcile_after_commit(owner, result)

    def set_in_transaction(
        self, owner: PasswordOwner, stored: StoredPassword, by: Actor, *, token_generation: int | None = None
    ) -> DecisionResult:
        """Set the password inside the caller's transaction; `reconcile_after_commit` follows.

        `token_generation`: that of the session that asked; raises `Unauthorized` if it has ended meanwhile. Without
        one, raises `UserNotFound` for a user deleted meanwhile.
        """
        changes = {
            "password_hash": stored.hash,
            "password_salt": stored.salt,
            "password_algorithm": stored.algorithm,
            "password_set_at": self.now(),
        }
        self.access.find_for_update(owner.key)  # locked by name first, as everywhere: otherwise two writers deadlock
        is_owner = User.id == owner.user_id
        if token_generation is not None:
            is_owner = is_owner & (User.token_generation == token_generation)
        if not User.update(changes).where(is_owner).execute():
            raise errors.UserNotFound if token_generation is None else errors.Unauthorized
        self.sessions.revoke_all(owner.user_id)
        self.links.revoke_all(owner.user_id)
        self.audit.record("user.password_changed", by.name, owner.username, ip=by.ip)
        warnings = self.player_warnings.before("password", owner.key)
        warnings |= warn_if_players_away(self.reconciler.request_password_write, owner.key)
        warnings |= warn_if_players_away(self.reconciler.reconcile_in_transaction, owner.key)
        return DecisionResult(owner.username, User.get_by_id(owner.user_id).status, tuple(sorted(warnings)))

    def reconcile_after_commit(self, owner: PasswordOwner, result: DecisionResult) -> DecisionResult:
        """Let the player's row follow where it needs a transaction of its own. Returns the result with all warnings."""
        warnings = {*result.warnings, *warn_if_players_away(self.reconciler.reconcile_after_commit, owner.key)}
        return replace(result, warnings=tuple(sorted(warnings)))
