"""Logging in: which hash a password is checked against, and what a right one brings.

Three parts that never overlap: look up (SQL on a worker thread), verify (the hash pool), complete (SQL again).
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from peewee import Database

from plugin_bridge.players import PlayersAway
from regsvc import errors
from regsvc.audit import Audit
from regsvc.clock import Clock, epoch_ms
from regsvc.db import Worker
from regsvc.email_address import parse_email
from regsvc.login_delays import KnownClients
from regsvc.login_limits import LoginLimits
from regsvc.models import APPROVED, BANNED, User
from regsvc.passwords import HashPool, Passwords
from regsvc.records import Audience, Caller
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import AGREED, GONE, StoredPassword, Subject
from regsvc.tokens import Tokens

_NOBODY = "@"
"""A name that no player has: an unknown e-mail is looked up as long as a known one."""
_FAILURES_TOGETHER = timedelta(hours=1)


@dataclass(frozen=True)
class Candidate:
    """Whom a login may turn out to be. `stored` None: nobody, or nobody with a password."""

    key: str
    """The lower-case name that was meant; what was typed, where it names nobody."""
    username: str
    stored: StoredPassword | None = field(repr=False)
    user_id: int | None = None
    token_generation: int = 0
    is_known_client: bool = False
    is_own_password: bool = False
    """Whether `stored` is what the user set through us, so that it opens a row that came back."""


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
        passwords: Passwords,
        reconciler: Reconciler,
        limits: LoginLimits,
        known_clients: KnownClients,
        tokens: Tokens,
        audit: Audit,
        is_operator: Callable[[str], bool],
        now: Clock,
    ) -> None:
        self._database = database
        self._worker = worker
        self._hash_pool = hash_pool
        self._passwords = passwords
        self._reconciler = reconciler
        self._limits = limits
        self._known_clients = known_clients
        self._tokens = tokens
        self._audit = audit
        self._is_operator = is_operator
        self._now = now

    async def log_in(self, name: str, password: str, audience: Audience, caller: Caller) -> LoggedIn:
        """Raises `RateLimited`, `BadCredentials`; only after a right password `Banned` and `NotOperator`."""
        candidate = await self.check(name, password, caller)
        outcome = await self._worker.run(self._complete, candidate, audience, caller)
        if isinstance(outcome, errors.Refusal):
            raise outcome
        return outcome

    async def check(self, name: str, password: str, caller: Caller) -> Candidate:
        """Who has this name and this password. Raises `RateLimited` or `BadCredentials`, and counts the failure."""
        name = name.strip()
        self._limits.hit(name.lower(), caller)
        candidate = await self._worker.run(self._look_up, name, caller)
        self._hash_pool.require_room()
        self._limits.begin_try(candidate.key, caller, is_known_client=candidate.is_known_client)
        is_right = await self._hash_pool.run(self._passwords.verify, password, candidate.stored, candidate.username)
        if not is_right:
            await self._worker.run(self._record_failure, candidate, caller)
            raise errors.BadCredentials
        self._limits.succeeded(name.lower(), candidate.key, caller)
        return candidate

    def _look_up(self, name: str, caller: Caller) -> Candidate:
        key = _key_of(name)
        try:
            # nobody has proven anything yet: what is braked for many names stays for a run of the sync
            self._reconciler.settle(key or _NOBODY, may_adopt=False, is_braked=True)
            subject = self._reconciler.look(key or _NOBODY, is_held=False)
        except PlayersAway as error:
            raise errors.PlayersAway from error
        if key is None:
            return Candidate(name.lower(), name, None)
        if subject.user is None:
            return Candidate(key, name, _players_password(subject))
        stored, is_own = _password_of(subject)
        user = User.get_or_none(User.id == subject.user.id)
        if user is None:  # deleted since
            return Candidate(key, name, None)
        return Candidate(
            key=key,
            username=user.username,
            stored=stored,
            user_id=user.id,
            token_generation=user.token_generation,
            is_known_client=self._known_clients.is_known(user.id, caller.limit_key),
            is_own_password=is_own,
        )

    def _record_failure(self, candidate: Candidate, caller: Caller) -> None:
        # of a name that nobody has nothing is kept: people type passwords into the wrong field
        name = candidate.username if candidate.user_id is not None else None
        self._audit.tally(
            "user.login_failed", "", name, caller.address, client=caller.limit_key, per=_FAILURES_TOGETHER
        )

    def _complete(self, candidate: Candidate, audience: Audience, caller: Caller) -> LoggedIn | errors.Refusal:
        """What follows from a right password; a refusal comes back, so that what was recorded of it is kept."""
        try:
            self._reconciler.settle(candidate.key)  # a name that only AuthMe knew is a user now
            with self._database.atomic():
                user = User.get_or_none(User.username_key == candidate.key)
                if user is None or not self._is_same_person(candidate, user):
                    return errors.BadCredentials()
                refusal = self._refusal(user, audience, caller)
                if refusal is not None:
                    return refusal
                if candidate.user_id is not None and user.token_generation != candidate.token_generation:
                    return errors.BadCredentials()  # the password was changed since it was looked up
                if candidate.is_own_password:
                    self._reconciler.wish_to_open(candidate.key)
                    self._reconciler.settle_inside(candidate.key)
                logged_in = self._let_in(user, audience, caller)
        except PlayersAway as error:
            raise errors.PlayersAway from error
        if candidate.is_own_password:
            with contextlib.suppress(PlayersAway):  # the wish is committed: the sync fulfils it
                self._reconciler.settle_after(candidate.key)
        return logged_in

    def _is_same_person(self, candidate: Candidate, user: User) -> bool:
        """Whether the user is the one whose password was checked; names change hands in the meantime."""
        if candidate.user_id is not None:
            return bool(user.id == candidate.user_id)
        subject = self._reconciler.look(candidate.key)
        agreement, stored = subject.agreement, candidate.stored
        if user.origin != "adopted" or agreement is None or stored is None:
            return False
        return (agreement.base_hash, agreement.base_salt) == (stored.hash, stored.salt)

    def _refusal(self, user: User, audience: Audience, caller: Caller) -> errors.Refusal | None:
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
        issued = self._tokens.issue(user, audience, caller)
        User.update(last_login_at=moment).where(User.id == user.id).execute()
        self._known_clients.remember(user.id, caller.limit_key)
        action = "admin.logged_in" if audience == "admin" else "user.logged_in"
        self._audit.record(action, user.username, user.username, ip=caller.address)
        return LoggedIn(
            issued.token, issued.expires_at, user.username, user.email, user.status, self._may_administer(user)
        )


def _key_of(name: str) -> str | None:
    """The lower-case name; with an @ that of the user with this verified e-mail. None: there cannot be one."""
    if "@" not in name:
        return name.lower() if 0 < len(name) <= 255 else None
    try:
        address = parse_email(name)
    except errors.Refusal:
        return None
    row = User.get_or_none((User.email_key == address.key) & User.is_email_verified)
    return row.username_key if row is not None else None


def _players_password(subject: Subject) -> StoredPassword | None:
    """Of a name that only AuthMe knows."""
    player = subject.player
    if player is None or player.is_locked:
        return None
    return StoredPassword(player.hash, player.salt, None)


def _password_of(subject: Subject) -> tuple[StoredPassword | None, bool]:
    """What a user's password is checked against, and whether it is the one set through us.

    The row only if it is that of the last agreement and not locked; never a hash from a row that appeared.
    """
    user, agreement, player = subject.user, subject.agreement, subject.player
    assert user is not None
    if player is not None and agreement is not None and agreement.is_playable(player):
        return StoredPassword(player.hash, player.salt, None), False
    if user.password is not None:
        return user.password, True
    if agreement is None:
        return None, False
    if agreement.kept_hash is not None and agreement.kept_origin == AGREED:
        salt = player.salt if player is not None else agreement.base_salt
        return StoredPassword(agreement.kept_hash, salt, None), False
    if (player is None or agreement.presence == GONE) and agreement.base_hash is not None:
        return StoredPassword(agreement.base_hash, agreement.base_salt, None), False
    return None, False
