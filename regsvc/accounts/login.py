"""Login: a password, the second factor where the user has one, and the session they bring."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, Meta, UnsetType
from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.accounts.access import AccountAccess, AccountForUpdate
from regsvc.accounts.captcha import CAPTCHA_REFUSALS, NO_PROOF, CaptchaProof, CaptchaProtectedRequest, Captchas
from regsvc.accounts.chat.linking import ChatClaimFields, ChatLinking, LinkToken, claim_at_login
from regsvc.accounts.password_checker import COUNTED_TOGETHER, LoginIdentity, PasswordChecker
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Audience, Caller, VerifiedSession
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.errors import Refusal
from regsvc.core.rights import NO_RIGHTS, Permission, Rights, Team
from regsvc.core.shapes import Moment, Username
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, BANNED, User
from regsvc.http.messages import Email, MessageReply, Password, Reply, Status, to_reply
from regsvc.http.route import ADMIN, PUBLIC, USER, Routes
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import UserRecord

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


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


@dataclass(frozen=True)
class Logins:
    """The logins of users and admins, and the logout."""

    database: Database
    worker: Worker
    checker: PasswordChecker
    captchas: Captchas
    access: AccountAccess
    reconciler: Reconciler
    sessions: Sessions
    known_clients: KnownClients
    audit: Audit
    team: Team
    live: LiveConfig
    now: Clock
    return_member: Callable[[str], object] = lambda key: None
    """Lets the membership of this name's user go on that ended for idleness."""

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
        with self.captchas.guard("login", captcha, caller) as is_solved:
            outcome = None
            while outcome is None:  # as long as the limits of attempts allow
                identity = await self.checker.check_with_totp(name, password, totp, caller, captcha_solved=is_solved)
                outcome = await self.worker.run(self._complete, identity, audience, caller)
            if isinstance(outcome, Refusal):
                raise outcome
            return outcome

    def log_out(self, session: VerifiedSession, caller: Caller) -> None:
        """End one session. Blocking: for a worker thread."""
        with self.database.atomic():
            self.sessions.revoke(session.jti)
            self._tally("user.logged_out", session.username, caller)

    def _complete(
        self, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> LoggedIn | Refusal | None:
        """Log in after a right password. A refusal is returned, so that the audit entries about it are committed.

        None: the password was changed since it was looked up, or a decision has ended the sessions, and is to be
        checked again.
        """
        try:
            if identity.user is None:
                self.reconciler.reconcile(identity.key)  # a name that only AuthMe knew becomes a user
            elif identity.is_own_password and identity.rehashed is not None:
                self._replace_own_hash(identity, identity.rehashed)  # first: a row may be reclaimed with it below
            if identity.is_own_password and identity.is_returned:
                done, _warnings = self.access.change(
                    identity.key,
                    lambda locked: self._open(identity, audience, caller, locked),
                    if_missing=errors.BadCredentials,
                )
            else:
                with self.database.atomic():
                    done = self._open_if_unchanged(identity, audience, caller)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if isinstance(done, LoggedIn) and identity.user is not None and identity.user.ended_because == "idle":
            self.return_member(identity.key)
        if isinstance(done, LoggedIn) and identity.stored is not None and identity.rehashed is not None:
            with contextlib.suppress(PlayersUnavailable):  # the next login rehashes, here or in the game
                self.reconciler.rehash(identity.key, identity.stored, identity.rehashed)
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

        self.access.change(identity.key, work, if_missing=errors.BadCredentials)

    def _open_if_unchanged(
        self, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> LoggedIn | Refusal | None:
        """Open the session of a user who is still as looked up in one step; else look again, and say why not."""
        opened = None
        if identity.user is not None and not identity.has_shown_code:
            opened = self._open_as_looked_up(identity.user, identity, audience, caller)
        return opened or self._open(identity, audience, caller)

    def _open(
        self, identity: LoginIdentity, audience: Audience | None, caller: Caller, locked: AccountForUpdate | None = None
    ) -> LoggedIn | Refusal | None:
        """Open the session in the current transaction, which has `locked` the account if a row is to be reclaimed."""
        user = locked.user if locked is not None else User.get_or_none(User.username_key == identity.key)
        if user is None or not self._is_same_person(identity, user):
            return errors.BadCredentials()
        if identity.user is not None and user.token_generation != identity.token_generation:
            return None
        if not self.checker.use_second_factor(identity, user.id, caller):
            self.checker.record_wrong_code(identity, caller)  # another login used the same code
            return errors.TotpRequired()
        refusal = self._find_refusal(user, identity, audience, caller)
        if refusal is not None:
            return refusal
        if locked is not None:
            locked.intended = self.reconciler.request_reclaim(locked.account)
        return self._open_session(user, identity, audience, caller)

    def _is_same_person(self, identity: LoginIdentity, user: User) -> bool:
        """Whether the user is the one whose password was checked; a name may change hands meanwhile."""
        if identity.user is not None:
            return bool(user.id == identity.user_id)
        account = self.reconciler.loader.load_for_update([identity.key])[0]
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
        self.audit.tally(
            "admin.denied",
            Actor(user.username, caller.address),
            client=caller.limit_key,
            per=COUNTED_TOGETHER,
        )
        if self.team.rights_of(user).permissions:
            return errors.TotpSetupRequired()
        is_waiting = user.status != APPROVED and self.team.rank_of(user) > 0
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
        if not User.update(last_login_at=self.now()).where(is_same).execute():
            return None
        return self._issue(user, identity, audience, caller)

    def _open_session(self, user: User, identity: LoginIdentity, audience: Audience | None, caller: Caller) -> LoggedIn:
        """Open a session of a user read in this transaction, without refusal."""
        User.update(last_login_at=self.now()).where(User.id == user.id).execute()
        return self._issue(user, identity, audience, caller)

    def _issue(
        self, user: User | UserRecord, identity: LoginIdentity, audience: Audience | None, caller: Caller
    ) -> LoggedIn:
        """Issue an access token and record the login."""
        rights, past_logins = self._rights_at_login(user, identity), identity.past_logins
        audience = audience or ("admin" if rights.permissions else "user")
        issued = self.sessions.issue(
            user,
            audience,
            caller,
            has_second_factor=identity.has_shown_code,
            session_count=past_logins.session_count,
        )
        if not past_logins.is_recorded:
            self.known_clients.record(user.id, caller.limit_key)
        action = "admin.logged_in" if audience == "admin" else "user.logged_in"
        self._tally(action, user.username, caller)
        return LoggedIn(issued.token, issued.expires_at, user.username, user.email, user.status, rights)

    def _tally(self, action: str, name: str, caller: Caller) -> None:
        """Add to the audit log, which a player who logs in and out all day must not fill."""
        by = Actor(name, caller.address)
        self.audit.tally(action, by, name, client=caller.limit_key, per=COUNTED_TOGETHER)

    def _may_log_in(self, user: User | UserRecord, identity: LoginIdentity, audience: Audience | None) -> bool:
        return bool(user.status != BANNED) and (
            audience != "admin" or bool(self._rights_at_login(user, identity).permissions)
        )

    def _rights_at_login(self, user: User | UserRecord, identity: LoginIdentity) -> Rights:
        """Return the user's rights; none without the second factor that they need."""
        rights, kept = self.team.rights_of(user), self.team.kept_rights_of(user)
        needs_totp = self.live.current.auth.needs_totp(is_operator=kept.is_operator)
        return rights if identity.has_shown_code or not needs_totp else NO_RIGHTS


Permissions = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": [it.value for it in Permission]}, examples=["users.read"])]],
    Meta(description="What the user may do on `/api/admin`; empty for players."),
]

AccessToken = Annotated[str, Meta(description="Sent as `Authorization: Bearer …`.", examples=["eyJhbGciOi…"])]


class LoginRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """`username` may be an e-mail address; `totp` is a code of the authenticator app, or a recovery code."""

    username: Annotated[Username, Meta(description="The name or the e-mail address.", min_length=1, examples=["Alice"])]
    password: Annotated[Password, Meta(min_length=1)]
    totp: Annotated[str, Meta(examples=["123456"])] | None = None
    link_token: LinkToken | None = None


class LoginReply(Reply, frozen=True, kw_only=True):
    """An access token, and the user it belongs to."""

    token: AccessToken
    expires_at: Moment
    username: Username
    email: Email | None
    status: Status
    is_admin: Annotated[bool, Meta(description="Whether the user can log in at /admin.", examples=[False])]
    permissions: Permissions
    chat: Annotated[ChatClaimFields, Meta(description="Present if a link token was sent.")] | UnsetType = UNSET


class ValidTokenReply(Reply, frozen=True, kw_only=True):
    """The token is currently valid on admin routes."""

    valid: Annotated[bool, Meta(extra_json_schema={"const": True}, examples=[True])] = True
    username: Username
    expires_at: Moment
    permissions: Permissions


LOGIN_REFUSALS: Final = (
    errors.BadCredentials,
    errors.TotpRequired,
    errors.Banned,
    *CAPTCHA_REFUSALS,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/login", PUBLIC, *LOGIN_REFUSALS)
async def log_in(call: Call, logins: Logins, chat: ChatLinking, request: LoginRequest) -> LoginReply:
    """Log in as a user. Pending and rejected users can log in, too, to see their status."""
    return await log_in_to(call, logins, chat, request, "user")


async def log_in_to(
    call: Call, logins: Logins, chat: ChatLinking, request: LoginRequest, audience: Audience | None
) -> LoginReply:
    logged_in = await logins.log_in(
        request.username, request.password, audience, call.caller, totp=request.totp, captcha=request.captcha
    )
    claimed = await claim_at_login(call, chat, logged_in.username, request.link_token)
    return to_reply(LoginReply, logged_in, chat=claimed, permissions=sorted(logged_in.rights.permissions))


@ROUTES.add("POST", "/api/admin/login", PUBLIC, *LOGIN_REFUSALS, errors.NotOperator, errors.TotpSetupRequired)
async def log_in_as_admin(call: Call, logins: Logins, chat: ChatLinking, request: LoginRequest) -> LoginReply:
    """Log in as a member of the team: an approved user who is an operator of the game server, or has a role."""
    return await log_in_to(call, logins, chat, request, "admin")


@ROUTES.add("POST", "/api/logout", USER)
async def log_out(call: Call, logins: Logins) -> MessageReply:
    """Log out and end this session."""
    await call.run(logins.log_out, call.require_session(), call.caller)
    return MessageReply(message=call.message("logged_out"))


@ROUTES.add("GET", "/api/admin/verify", ADMIN)
async def verify_admin(call: Call) -> ValidTokenReply:
    """Verify that the token in the header is an admin's. Any other token is refused, as on every admin route."""
    return valid_token(call.require_admin())


def valid_token(admin: VerifiedSession) -> ValidTokenReply:
    return ValidTokenReply(
        username=admin.username,
        expires_at=admin.expires_at,
        permissions=sorted(admin.rights.permissions),
    )
