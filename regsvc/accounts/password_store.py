"""Storage of passwords set through us: by the owner, by an admin or through a link."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from regsvc.accounts.access import AccountAccess, LockedAccount, PlayerWarnings, Principal
from regsvc.accounts.decisions import DecisionResult
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.sessions import Sessions
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.text import name_key
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

    A new password ends every link and every session, except one to be kept. It reaches the player's row at once, or
    when the row is unlocked.
    """

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
        user = self.access.find_current(name_key(username))
        if user is None:
            raise errors.UserNotFound
        self.access.require_permission(user.username, "password", by)
        return PasswordOwner(user.id, user.username, user.username_key)

    def set(
        self,
        owner: PasswordOwner,
        stored: StoredPassword,
        by: Actor,
        *,
        token_generation: int | None = None,
        kept_session: str | None = None,
        first: Callable[[User], None] = lambda user: None,
    ) -> DecisionResult:
        """Set the password, and let the player's row follow.

        `first` runs at the beginning of the transaction; it may mark the user's e-mail address as verified.

        `token_generation`: that of the session that asked; raises `Unauthorized` if it has ended meanwhile. Without
        one, raises `UserNotFound` for a user deleted meanwhile. `kept_session`: the `jti` of a session that stays.
        """
        refusal = errors.UserNotFound if token_generation is None else errors.Unauthorized

        def work(locked: LockedAccount) -> DecisionResult:
            user = locked.user
            is_ended = token_generation is not None and user.token_generation != token_generation
            if user.id != owner.user_id or is_ended:
                raise refusal
            first(user)
            warnings = self._set(locked, stored, by, kept_session)
            return DecisionResult(owner.username, user.status, warnings)

        result, warnings = self.access.change(owner.key, work, reconciles_first=True, if_missing=refusal)
        return replace(result, warnings=tuple(sorted({*result.warnings, *warnings})))

    def _set(
        self, locked: LockedAccount, stored: StoredPassword, by: Actor, kept_session: str | None
    ) -> tuple[str, ...]:
        user = locked.user
        user.password_hash, user.password_salt = stored.hash, stored.salt
        user.password_algorithm, user.password_set_at = stored.algorithm, self.now()
        changed = [User.password_hash, User.password_salt, User.password_algorithm, User.password_set_at]
        changed.append(User.is_email_verified)
        changes = {field: getattr(user, field.name) for field in changed}
        self.sessions.revoke_all(user.id, changes, kept=kept_session)
        user.token_generation += 1
        self.links.revoke_all(user.id)
        self.audit.record("user.password_changed", by.name, user.username, ip=by.ip)
        warnings = self.player_warnings.before("password", locked.account)
        locked.take_user()
        locked.intended = self.reconciler.request_password_write(locked.account)
        return tuple(warnings)
