"""Logging in: a password, the second factor where the player has one, and what right ones bring.

Three parts that never overlap: look up (SQL on a worker thread), verify (the hash pool), complete (SQL again).
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.accounts.login_lookup import LoginIdentity, LoginLookup
from regsvc.auth.hashing import HashPool, PasswordHashing
from regsvc.auth.login_limits import LoginLimits
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.auth.totp import find_time_step, use_time_step
from regsvc.core import errors
from regsvc.core.caller import Audience, Caller, Session
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.errors import Refusal
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, BANNED, User
from regsvc.sync.reconciler import Reconciler

_FAILURES_TOGETHER = timedelta(hours=1)


@dataclass(frozen=True)
class LoggedIn:
    """What a right password brings. Its repr does not show the token."""

    token: str = field(repr=False)
    expires_at: datetime
    username: str
    email: str | None
    status: str
    is_admin: bool


class Logins:
    """The two logins, and the password check that changing a password shares with them."""

    def __init__(
        self,
        *,
        database: Database,
        worker: Worker,
        hash_pool: HashPool,
        hashing: PasswordHashing,
        reconciler: Reconciler,
        captchas: Captchas,
        limits: LoginLimits,
        known_clients: KnownClients,
        sessions: Sessions,
        audit: Audit,
        is_operator: Callable[[str], bool],
        now: Clock,
    ) -> None:
        self._database = database
        self._worker = worker
        self._hash_pool = hash_pool
        self._hashing = hashing
        self._reconciler = reconciler
        self._candidates = LoginLookup(reconciler, known_clients)
        self._captchas = captchas
        self._limits = limits
        self._known_clients = known_clients
        self._sessions = sessions
        self._audit = audit
        self._is_operator = is_operator
        self._now = now

    async def log_in(
        self,
        name: str,
        password: str,
        audience: Audience,
        caller: Caller,
        *,
        totp: str | None = None,
        captcha: CaptchaProof = NO_PROOF,
    ) -> LoggedIn:
        """Raises what the captcha is refused with, `RateLimited`, `BadCredentials`; only after a right password
        `TotpRequired`, and only after that `Banned` and `NotOperator`.
        """
        with self._captchas.guard("login", captcha, caller):
            candidate = await self.check_with_totp(name, password, totp, caller)
            outcome = await self._worker.run(self._complete, candidate, audience, caller)
            if isinstance(outcome, Refusal):
                raise outcome
            return outcome

    async def check(self, name: str, password: str, caller: Caller) -> LoginIdentity:
        """Who has this name and this password. Raises `RateLimited` or `BadCredentials`, and counts the failure.

        No second factor is asked for: whoever shows a session as well has shown it already.
        """
        candidate = await self._check_password(name, password, caller)
        if candidate.totp_secret is None:
            self._limits.reset(name, candidate.key, caller)
        else:  # what failed stays counted until a code is right: a password must not make room to guess codes
            self._limits.refund(candidate.key, caller, is_known_client=candidate.is_known_client)
        return candidate

    async def check_with_totp(self, name: str, password: str, totp: str | None, caller: Caller) -> LoginIdentity:
        """The same with the second factor, where the player has one; it is still to be spent (`totp_step`).

        Raises `TotpRequired` too: for a code that is missing, which is no failure, and for a wrong or spent one,
        which counts as a wrong password does.
        """
        candidate = await self._check_password(name, password, caller)
        if candidate.totp_secret is not None:
            if not totp or not totp.strip():
                self._limits.refund(candidate.key, caller, is_known_client=candidate.is_known_client)
                raise errors.TotpRequired
            step = find_time_step(candidate.totp_secret, totp, self._now(), after=candidate.last_totp_step)
            if step is None:
                await self._worker.run(self._record_failure, candidate, caller)
                raise errors.TotpRequired
            candidate = replace(candidate, totp_step=step)
        self._limits.reset(name, candidate.key, caller)
        return candidate

    async def check_owner(self, session: Session, password: str, caller: Caller) -> LoginIdentity:
        """The owner of a session shows the password again. Raises `WrongPassword`, counted as a failed login."""
        try:
            candidate = await self.check(session.username, password, caller)
        except errors.BadCredentials:
            raise errors.WrongPassword from None
        return _require_owner(candidate, session)

    async def check_owner_with_totp(
        self, session: Session, password: str, totp: str | None, caller: Caller
    ) -> LoginIdentity:
        """The same with the second factor: raises `TotpRequired` too."""
        try:
            candidate = await self.check_with_totp(session.username, password, totp, caller)
        except errors.BadCredentials:
            raise errors.WrongPassword from None
        return _require_owner(candidate, session)

    async def _check_password(self, name: str, password: str, caller: Caller) -> LoginIdentity:
        """The try is counted as a failure before it is looked at; whoever called takes that back."""
        name = name.strip()
        self._limits.hit(name, caller)
        candidate = await self._worker.run(self._candidates.find, name, caller)
        with self._hash_pool.reserve():
            self._limits.start_attempt(candidate.key, caller, is_known_client=candidate.is_known_client)
            verdict = await self._hash_pool.run_reserved(
                self._hashing.verify, password, candidate.stored, candidate.username
            )
        if not verdict:
            await self._worker.run(self._record_failure, candidate, caller)
            raise errors.BadCredentials
        return replace(candidate, rehashed=verdict.rehashed)

    def _record_failure(self, candidate: LoginIdentity, caller: Caller) -> None:
        # of a name that nobody has nothing is kept: people type passwords into the wrong field
        name = candidate.username if candidate.user_id is not None else None
        self._audit.tally(
            "user.login_failed", "", name, caller.address, client=caller.limit_key, per=_FAILURES_TOGETHER
        )

    def _complete(self, candidate: LoginIdentity, audience: Audience, caller: Caller) -> LoggedIn | Refusal:
        """What follows from a right password; a refusal comes back, so that what was recorded of it is kept."""
        try:
            self._reconciler.reconcile(candidate.key)  # a name that only AuthMe knew is a user now
            with self._database.atomic():
                user = User.get_or_none(User.username_key == candidate.key)
                if user is None or not self._is_same_person(candidate, user):
                    return errors.BadCredentials()
                if candidate.totp_step is not None and not use_time_step(user.id, candidate.totp_step):
                    self._record_failure(candidate, caller)  # another login showed the same code
                    return errors.TotpRequired()
                refusal = self._refusal(user, audience, caller)
                if refusal is not None:
                    return refusal
                if candidate.user_id is not None and user.token_generation != candidate.token_generation:
                    return errors.BadCredentials()  # the password was changed since it was looked up
                if candidate.is_own_password:
                    self._reconciler.request_reclaim(candidate.key)
                    self._reconciler.reconcile_in_transaction(candidate.key)
                logged_in = self._let_in(user, audience, caller)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if candidate.is_own_password:
            with contextlib.suppress(PlayersUnavailable):  # the wish is committed: the sync fulfils it
                self._reconciler.reconcile_after_commit(candidate.key)
        if candidate.stored is not None and candidate.rehashed is not None:
            with contextlib.suppress(PlayersUnavailable):  # the next login does it, here or in the game
                self._reconciler.rehash(candidate.key, candidate.stored, candidate.rehashed)
        return logged_in

    def _is_same_person(self, candidate: LoginIdentity, user: User) -> bool:
        """Whether the user is the one whose password was checked; names change hands in the meantime."""
        if candidate.user_id is not None:
            return bool(user.id == candidate.user_id)
        account = self._reconciler.load_for_update(candidate.key)
        sync_record, stored = account.sync_record, candidate.stored
        if user.origin != "adopted" or sync_record is None or stored is None:
            return False
        return (sync_record.base_hash, sync_record.base_salt) == (stored.hash, stored.salt)

    def _refusal(self, user: User, audience: Audience, caller: Caller) -> Refusal | None:
        if user.status == BANNED:
            expires_at = epoch_ms(user.ban_expires_at) if user.ban_expires_at else None
            return errors.Banned(user.reason, expires_at)
        if audience == "admin" and not self._may_administer(user):
            self._audit.tally(
                "admin.denied",
                user.username,
                ip=caller.address,
                client=caller.limit_key,
                per=_FAILURES_TOGETHER,
            )
            return errors.NotOperator()
        return None

    def _may_administer(self, user: User) -> bool:
        return bool(user.status == APPROVED) and self._is_operator(user.username)

    def _let_in(self, user: User, audience: Audience, caller: Caller) -> LoggedIn:
        moment = self._now()
        issued = self._sessions.issue(user, audience, caller)
        User.update(last_login_at=moment).where(User.id == user.id).execute()
        self._known_clients.record(user.id, caller.limit_key)
        action = "admin.logged_in" if audience == "admin" else "user.logged_in"
        self._audit.record(action, user.username, user.username, ip=caller.address)
        return LoggedIn(
            issued.token, issued.expires_at, user.username, user.email, user.status, self._may_administer(user)
        )


def _require_owner(candidate: LoginIdentity, session: Session) -> LoginIdentity:
    """The name may have changed hands since the session began."""
    if candidate.user_id != session.user_id:
        raise errors.WrongPassword
    return candidate
