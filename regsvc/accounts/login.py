"""Login: a password, the second factor where the user has one, and the session they bring."""

import contextlib
from dataclasses import dataclass, field
from datetime import datetime

from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.accounts.access import AccountAccess, AccountForUpdate
from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.accounts.password_checker import COUNTED_TOGETHER, LoginIdentity, PasswordChecker
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Audience, Caller, VerifiedSession
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.errors import Refusal
from regsvc.core.rights import NO_RIGHTS, Rights, Team
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, BANNED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import UserRecord


@dataclass(frozen=True)
class LoggedIn:
    """A new session and its user. Its repr does not show the token."""

    token: str = field(repr=False)
    expires_at: datetime
    username: str
    email: str | None
    status: str
    rights: Rights

    @property
    def is_admin(self) -> bool:
        """Whether the user can log in at /admin."""
        return bool(self.rights.permissions)


class Logins:
    """The logins of users and admins, and the logout."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        checker: PasswordChecker,
        captchas: Captchas,
        access: AccountAccess,
        reconciler: Reconciler,
        sessions: Sessions,
        known_clients: KnownClients,
        audit: Audit,
        team: Team,
        live: LiveConfig,
        now: Clock,
    ) -> None:
        self._database = database
        self._worker = worker
        self._checker = checker
        self._captchas = captchas
        self._access = access
        self._reconciler = reconciler
        self._sessions = sessions
        self._known_clients = known_clients
        self._audit = audit
        self._team = team
        self._live = live
        self._now = now

    async def log_in(
        self,
        name: str,
        password: str,
        audience: Audience | None,
        caller: Caller,
        *,
        totp: str | None = None,
        captcha: CaptchaProof = NO_PROOF,
    ) -> LoggedIn:
        """Log in and return the new session. `audience` None: "admin" for a member of the team, else "user".

        Raises the captcha's refusals, `RateLimited` and `BadCredentials`; only after a right password `TotpRequired`,
        and only after that `Banned`, `NotOperator` and `TotpSetupRequired`.
        """
        with self._captchas.guard("login", captcha, caller) as is_solved:
            identity = await self._checker.check_with_totp(name, password, totp, caller, captcha_solved=is_solved)
            outcome = await self._worker.run(self._complete, identity, audience, caller)
            if isinstance(outcome, Refusal):
                raise outcome
            return outcome

    def log_out(self, session: VerifiedSession, caller: Caller) -> None:
        """End one session. Blocking: for a worker thread."""
        with self._database.atomic():
            self._sessions.revoke(session.jti)
            self._tally("user.logged_out", session.username, caller)

    def _complete(self, identity: LoginIdentity, audience: Audience | None, caller: Caller) -> LoggedIn | Refusal:
        """Log in after a right password. A refusal is returned, so that the audit entries about it are committed."""
        try:
            if identity.user is None:
                self._reconciler.reconcile(identity.key)  # a name that only AuthMe knew becomes a user
            elif identity.is_own_password and identity.rehashed is not None:
                self._replace_own_hash(identity, identity.rehashed)  # first: a row may be reclaimed with it below
            if identity.is_own_password and identity.is_returned:
                done, _warnings = self._access.change(
                    identity.key,
                    lambda locked: self._open(identity, audience, caller, locked),
                    if_missing=errors.BadCredentials,
                )
            else:
                with self._database.atomic():
                    done = self._open_if_unchanged(identity, audience, caller)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if not isinstance(done, Refusal) and identity.stored is not None and identity.rehashed is not None:
            with contextlib.suppress(PlayersUnavailable):  # the next login rehashes, here or in the game
                self._reconciler.rehash(identity.key, identity.stored, identity.rehashed)
        return done

    def _replace_own_hash(self, identity: LoginIdentity, rehashed: StoredPassword) -> None:
        """Replace a hash that AuthMe cannot verify, such as an imported one, and let the player's row follow."""

        def work(locked: AccountForUpdate) -> None:
            user, stored = locked.user, identity.stored
            if stored is None or (user.id, user.password_hash) != (identity.user_id, stored.hash):
                return  # set anew meanwhile
            user.password_hash, user.password_salt = rehashed.hash, rehashed.salt
            user.password_algorithm = rehashed.algorithm
            changed = (User.password_hash, User.password_salt, User.password_algorithm)
            User.update({field: getattr(user, field.name) for field in changed}).where(User.id == user.id).execute()
            locked.take_user()

        self._access.change(identity.key, work, if_missing=errors.BadCredentials)

    def _open_if_unchanged(
        self, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> LoggedIn | Refusal:
        """Open the session of a user who is still as looked up in one step; else look again, and say why not."""
        opened = None
        if identity.user is not None and not identity.has_shown_code:
            opened = self._open_as_looked_up(identity.user, identity, audience, caller)
        return opened or self._open(identity, audience, caller)

    def _open(
        self, identity: LoginIdentity, audience: Audience | None, caller: Caller, locked: AccountForUpdate | None = None
    ) -> LoggedIn | Refusal:
        """Open the session in the current transaction, which has `locked` the account if a row is to be reclaimed."""
        user = locked.user if locked is not None else User.get_or_none(User.username_key == identity.key)
        if user is None or not self._is_same_person(identity, user):
            return errors.BadCredentials()
        if not self._checker.use_second_factor(identity, user.id, caller):
            self._checker.record_wrong_code(identity, caller)  # another login used the same code
            return errors.TotpRequired()
        refusal = self._find_refusal(user, identity, audience, caller)
        if refusal is not None:
            return refusal
        if identity.user is not None and user.token_generation != identity.token_generation:
            return errors.BadCredentials()  # the password was changed since it was looked up
        if locked is not None:
            locked.intended = self._reconciler.request_reclaim(locked.account)
        return self._open_session(user, identity, audience, caller)

    def _is_same_person(self, identity: LoginIdentity, user: User) -> bool:
        """Whether the user is the one whose password was checked; a name may change hands meanwhile."""
        if identity.user is not None:
            return bool(user.id == identity.user_id)
        account = self._reconciler.loader.load_for_update([identity.key])[0]
        sync_record, stored = account.sync_record, identity.stored
        if user.origin != "adopted" or sync_record is None or stored is None:
            return False
        return (sync_record.base_hash, sync_record.base_salt) == (stored.hash, stored.salt)

    def _find_refusal(
        self, user: User, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> Refusal | None:
        """Return why this user may not log in (`Banned`, `NotOperator`, `TotpSetupRequired`), or None."""
        if self._may_log_in(user, identity, audience):
            return None
        if user.status == BANNED:
            expires_at = epoch_ms(user.ban_expires_at) if user.ban_expires_at else None
            return errors.Banned(user.reason, expires_at)
        self._audit.tally(
            "admin.denied",
            Actor(user.username, caller.address),
            client=caller.limit_key,
            per=COUNTED_TOGETHER,
        )
        if self._team.rights_of(user).permissions:
            return errors.TotpSetupRequired()
        is_waiting = user.status != APPROVED and self._team.rank_of(user) > 0
        return errors.NotOperator("not_approved" if is_waiting else None)

    def _open_as_looked_up(
        self, user: UserRecord, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> LoggedIn | None:
        """Open a session if the user may log in and is still as looked up; None, with nothing done, if not."""
        if not self._may_log_in(user, identity, audience):
            return None
        is_same = (
            (User.id == user.id)
            & (User.username == user.username)
            & (User.status == user.status)
            & (User.token_generation == user.token_generation)
        )
        if not User.update(last_login_at=self._now()).where(is_same).execute():
            return None
        return self._issue(user, identity, audience, caller)

    def _open_session(self, user: User, identity: LoginIdentity, audience: Audience | None, caller: Caller) -> LoggedIn:
        """Open a session of a user read in this transaction, without refusal."""
        User.update(last_login_at=self._now()).where(User.id == user.id).execute()
        return self._issue(user, identity, audience, caller)

    def _issue(
        self, user: User | UserRecord, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> LoggedIn:
        """Issue an access token and record the login."""
        rights, past_logins = self._rights_at_login(user, identity), identity.past_logins
        audience = audience or ("admin" if rights.permissions else "user")
        issued = self._sessions.issue(
            user,
            audience,
            caller,
            has_second_factor=identity.has_shown_code,
            session_count=past_logins.session_count,
        )
        if not past_logins.is_recorded:
            self._known_clients.record(user.id, caller.limit_key)
        action = "admin.logged_in" if audience == "admin" else "user.logged_in"
        self._tally(action, user.username, caller)
        return LoggedIn(issued.token, issued.expires_at, user.username, user.email, user.status, rights)

    def _tally(self, action: str, name: str, caller: Caller) -> None:
        """Add to the audit log, which a player who logs in and out all day must not fill."""
        by = Actor(name, caller.address)
        self._audit.tally(action, by, name, client=caller.limit_key, per=COUNTED_TOGETHER)

    def _may_log_in(self, user: User | UserRecord, identity: LoginIdentity, audience: Audience | None) -> bool:
        return bool(user.status != BANNED) and (
            audience != "admin" or bool(self._rights_at_login(user, identity).permissions)
        )

    def _rights_at_login(self, user: User | UserRecord, identity: LoginIdentity) -> Rights:
        """Return the user's rights; none without the second factor that they need."""
        rights, kept = self._team.rights_of(user), self._team.kept_rights_of(user)
        needs_totp = self._live.current.auth.needs_totp(is_operator=kept.is_operator)
        return rights if identity.has_shown_code or not needs_totp else NO_RIGHTS
