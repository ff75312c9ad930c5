"""What is decided about users: reviews, bans, deletion, passwords; and what anybody may ask about a name."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from peewee import Database

from regsvc.accounts.player_warnings import PlayerWarnings, warn_if_players_away
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.sessions import Sessions
from regsvc.core import errors
from regsvc.core.caller import Session
from regsvc.core.clock import Clock
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import APPROVED, BANNED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.users.transitions import DecisionDetails, Transitions


@dataclass(frozen=True)
class Principal:
    """Who decides. The command line may do everything, an operator nothing to his equals."""

    actor: Actor
    may_do_everything: bool = False


@dataclass(frozen=True)
class DecisionResult:
    """The outcome of a decision. `status` None: the user is gone; `status_before` None: nobody looked."""

    username: str
    status: str | None
    warnings: tuple[str, ...] = ()
    status_before: str | None = None


@dataclass(frozen=True)
class UserStatus:
    """What is known of a name. The fields after `is_whole` are for its owner and for admins, and empty for others."""

    username: str
    status: str
    is_whole: bool = False
    email: str | None = None
    reason: str | None = None
    reviewed_at: datetime | None = None
    ban_expires_at: datetime | None = None


@dataclass(frozen=True)
class PasswordOwner:
    """Whose password is to be set: what hashing it needs to know."""

    user_id: int
    username: str
    key: str = field(repr=False)


class Accounts:
    """Decisions. Blocking: every method is a rule for a worker thread."""

    def __init__(
        self,
        *,
        database: Database,
        reconciler: Reconciler,
        transitions: Transitions,
        sessions: Sessions,
        links: PasswordLinks,
        player_warnings: PlayerWarnings,
        audit: Audit,
        level_of: Callable[[str], int],
        now: Clock,
    ) -> None:
        self._database = database
        self._reconciler = reconciler
        self._transitions = transitions
        self._sessions = sessions
        self._links = links
        self._player_warnings = player_warnings
        self._audit = audit
        self._level_of = level_of
        self._now = now

    def find_status(self, username: str, session: Session | None) -> UserStatus | None:
        """What may be told of this name; None where nobody has it."""
        is_key = User.username_key == username.lower()
        if session is None:  # by far the most: two columns, and no model to fill
            row = User.select(User.username, User.status).where(is_key).tuples().first()
            return UserStatus(*row) if row else None
        user = User.get_or_none(is_key)
        if user is None:
            return None
        if not (session.is_admin or session.user_id == user.id):
            return UserStatus(user.username, user.status)
        return UserStatus(
            user.username, user.status, True, user.email, user.reason, user.reviewed_at, user.ban_expires_at
        )

    def decide(self, username: str, transition: str, by: Principal, decree: DecisionDetails) -> DecisionResult:
        """Approve, reject, ban, unban or delete.

        Raises `UserNotFound`, `WrongStatus`, `ProtectedOperator`, and `InvalidField` for a ban that would be over.
        """
        if decree.expires_at is not None and decree.expires_at <= self._now():
            raise errors.InvalidField("expiresAt")
        key = username.lower()
        warnings = self._adopt(key)
        with self._database.atomic():
            user = self._get_held(key)
            self._protect_operators(user, transition, by)
            if user.status != user.applied_status:  # somebody typed SQL: what he meant comes first
                self._transitions.carry_out_edit(user)
                user = self._get_held(key)
            warnings |= self._player_warnings.before(transition, key)
            if transition == "delete":
                warnings |= warn_if_players_away(self._reconciler.record_tombstone, key)
                self._transitions.delete(user, by.actor, decree)
                decided = DecisionResult(user.username, None, status_before=user.status)
            else:
                changed = self._change(user, transition, by.actor, decree)
                decided = DecisionResult(changed.username, changed.status, status_before=user.status)
            warnings |= warn_if_players_away(self._reconciler.reconcile_in_transaction, key)
        warnings |= warn_if_players_away(self._reconciler.reconcile_after_commit, key)
        return replace(decided, warnings=tuple(sorted(warnings)))

    def get_password_owner(self, username: str, by: Principal) -> PasswordOwner:
        """Whose password an admin is about to set. Raises `UserNotFound` and `ProtectedOperator`."""
        self._adopt(username.lower())
        with self._database.atomic():
            user = self._get_held(username.lower())
            self._protect_operators(user, "password", by)
        return PasswordOwner(user.id, user.username, user.username_key)

    def set_password(
        self, owner: PasswordOwner, stored: StoredPassword, by: Actor, *, token_generation: int | None = None
    ) -> DecisionResult:
        """A password set through us: it ends every session and reaches the player's row, at once or when unlocked."""
        with self._database.atomic():
            decided = self.set_password_inside(owner, stored, by, token_generation=token_generation)
        return self.finish_password(owner, decided)

    def set_password_inside(
        self, owner: PasswordOwner, stored: StoredPassword, by: Actor, *, token_generation: int | None = None
    ) -> DecisionResult:
        """The same as part of the caller's transaction; `finish_password` comes after it.

        `token_generation`: that of the sessions it is done with; raises `Unauthorized` if they have ended meanwhile.
        """
        changes = {
            "password_hash": stored.hash,
            "password_salt": stored.salt,
            "password_algorithm": stored.algorithm,
            "password_set_at": self._now(),
        }
        self._find_held(owner.key)  # by the name first, as every rule does: else two of them deadlock
        is_owner = User.id == owner.user_id
        if token_generation is not None:
            is_owner = is_owner & (User.token_generation == token_generation)
        if not User.update(changes).where(is_owner).execute():
            raise errors.UserNotFound if token_generation is None else errors.Unauthorized
        self._sessions.revoke_all(owner.user_id)
        self._links.revoke_all(owner.user_id)
        self._audit.record("user.password_changed", by.name, owner.username, ip=by.ip)
        warnings = self._player_warnings.before("password", owner.key)
        warnings |= warn_if_players_away(self._reconciler.request_password_write, owner.key)
        warnings |= warn_if_players_away(self._reconciler.reconcile_in_transaction, owner.key)
        return DecisionResult(owner.username, User.get_by_id(owner.user_id).status, tuple(sorted(warnings)))

    def finish_password(self, owner: PasswordOwner, decided: DecisionResult) -> DecisionResult:
        """Let the player's row follow where it has a transaction of its own."""
        warnings = {*decided.warnings, *warn_if_players_away(self._reconciler.reconcile_after_commit, owner.key)}
        return replace(decided, warnings=tuple(sorted(warnings)))

    def log_out(self, session: Session, ip: str) -> None:
        """End one session."""
        with self._database.atomic():
            self._sessions.revoke(session.jti)
            self._audit.record("user.logged_out", session.username, session.username, ip=ip)

    def _change(self, user: User, transition: str, by: Actor, decree: DecisionDetails) -> User:
        if transition == "ban" and user.status == BANNED:
            return self._transitions.change_ban(user, by, decree)
        if transition == "approve" and user.status == APPROVED and self._reconciler.can_request_row(user.username_key):
            changed = self._transitions.approve_again(user, by, decree)
        else:
            changed = self._transitions.change(user, transition, by, decree)
        if transition == "approve":
            warn_if_players_away(self._reconciler.request_row, user.username_key)
        return changed

    def _adopt(self, key: str) -> set[str]:
        """A name that is only a player yet becomes a user first; everybody else is brought up to date.

        What is braked for many names stays for a run of the sync, or for the decision itself.
        """
        return warn_if_players_away(lambda name: self._reconciler.reconcile(name, is_guarded=True), key)

    def _get_held(self, key: str) -> User:
        user = self._find_held(key)
        if user is None:
            raise errors.UserNotFound
        return user

    def _find_held(self, key: str) -> User | None:
        query = User.select().where(User.username_key == key)
        user: User | None = (query.for_update() if self._database.for_update else query).first()
        return user

    def _protect_operators(self, user: User, transition: str, by: Principal) -> None:
        """Nobody harms himself or an operator of the same or a higher level."""
        if by.may_do_everything or transition in ("approve", "unban"):
            return
        level = self._level_of(user.username)
        is_himself = user.username_key == by.actor.name.lower()
        if is_himself or (level > 0 and level >= self._level_of(by.actor.name)):
            raise errors.ProtectedOperator
