"""Identities at a login, and the check of their passwords, with the second factor where the user has one.

Looking up (SQL on a worker thread) and verifying (the hash pool) never overlap.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.auth.hashing import PasswordHashing, StoredPassword
from regsvc.auth.rate_limits import LoginLimits, login_subject
from regsvc.auth.second_factor import (
    SecondFactors,
    find_time_step,
    is_recovery_code,
    use_recovery_code,
    use_time_step,
)
from regsvc.auth.sessions import NO_LOGINS, KnownClients, PastLogins
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited, Unauthorized
from regsvc.core.text import name_key, turkish_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker
from regsvc.database.models import BANNED, GONE, VERIFIED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, UserRecord

_NOBODY = "@"
"""A name that no player has, so that looking up an unknown e-mail address takes as long as a known one."""


@dataclass(frozen=True)
class LoginIdentity:
    """The account a login names. `stored` None: there is no such account, or it has no password."""

    key: str
    """The lower-case name of the account; what failures are counted under if there is none."""
    username: str
    stored: StoredPassword | None = field(repr=False)
    user: UserRecord | None = None
    """None: there is no user of this name yet, perhaps a player."""
    past_logins: PastLogins = NO_LOGINS
    is_own_password: bool = False
    """Whether `stored` was set through us, so that it reclaims a row that another player registered."""
    is_returned: bool = False
    """Whether the name's row was registered by another player, and is kept from its owner until it is reclaimed."""
    totp_secret: str | None = field(default=None, repr=False)
    """The second factor; None: the password is enough."""
    totp_step: int | None = None
    """The time step of the code that was shown, still to be used (`PasswordChecker.use_second_factor`)."""
    recovery_code: str | None = field(default=None, repr=False)
    """The hash of the recovery code that was shown in place of it, still to be used."""
    subject: str = ""
    """What the attempt is counted under (`login_subject`)."""
    counter: str | None = None
    """Counter of failures that the attempt was counted in (`LoginDelays`)."""
    rehashed: StoredPassword | None = field(default=None, repr=False)
    """Replacement in the player's row for `stored`, which uses a legacy algorithm; None: no replacement."""

    @property
    def user_id(self) -> int | None:
        """The user's id; None: there is no user."""
        return self.user.id if self.user is not None else None

    @property
    def is_known_client(self) -> bool:
        """Whether the user logged in from this client lately."""
        return self.past_logins.is_known_client

    @property
    def token_generation(self) -> int:
        """The user's token generation when the password was looked up; 0 without a user."""
        return self.user.token_generation if self.user is not None else 0

    @property
    def has_shown_code(self) -> bool:
        """Whether a code of the second factor was shown."""
        return self.totp_step is not None or self.recovery_code is not None

    @property
    def last_totp_step(self) -> int | None:
        """The time step of the last code that was used, or None."""
        return self.user.totp_step if self.user is not None else None


def _find_key(subject: str) -> str | None:
    """Return the lower-case name; for an e-mail address that of its verified owner. None: there is no such account."""
    if "@" not in subject:
        return subject if 0 < len(subject) <= 255 else None
    row = User.get_or_none((User.email_key == subject) & User.is_email_verified)
    return row.username_key if row is not None else None


def _players_password(account: Account) -> StoredPassword | None:
    """Return the password of a player without a user, or None if locked."""
    player = account.player
    if player is None or player.is_locked:
        return None
    return StoredPassword(player.hash, player.salt, None)


def password_of(account: Account) -> tuple[StoredPassword | None, bool]:
    """Return the password to check for a user, and whether it was set through us.

    AuthMe's row counts only if it is the last synced one and not locked; a row that appeared since never counts.
    """
    user, sync_record, player = account.user, account.sync_record, account.player
    assert user is not None
    if player is not None and sync_record is not None and sync_record.is_playable(player):
        return StoredPassword(player.hash, player.salt, None), False
    if user.password is not None:
        return user.password, True
    if sync_record is None:
        return None, False
    if sync_record.kept_hash is not None and sync_record.kept_origin == VERIFIED:
        salt = player.salt if player is not None else sync_record.base_salt
        return StoredPassword(sync_record.kept_hash, salt, None), False
    if (player is None or sync_record.presence == GONE) and sync_record.base_hash is not None:
        return StoredPassword(sync_record.base_hash, sync_record.base_salt, None), False
    return None, False


def find_players_totp(account: Account) -> str | None:
    """Return the TOTP secret in the player's row, locked or not, whichever password is checked.

    A secret in a row that appeared since the last sync is not the owner's: reclaiming the row empties it.
    """
    player = account.player if account.user is None else account.own_player
    if player is None or not player.totp or not player.totp.strip():
        return None
    return player.totp


def require_account_owner(user: User, identity: LoginIdentity) -> None:
    """Check that this is the user of a checked password.

    Raises `Unauthorized` if the user's sessions were revoked since the password was checked: the cause (an admin's
    reset, a ban, a deletion) is the newer decision.
    """
    if user.id != identity.user_id or user.status == BANNED or user.token_generation != identity.token_generation:
        raise Unauthorized


FRESH_SESSION = timedelta(minutes=15)
"""How long after a login its password counts as just checked."""

COUNTED_TOGETHER = timedelta(hours=1)
"""Logins of one user, or failed ones, from one client within this time are one audit entry."""


@dataclass(frozen=True)
class PasswordChecker:
    """Password check within the login limits; failures are counted."""

    worker: Worker
    reconciler: Reconciler
    known_clients: KnownClients
    hashing: PasswordHashing
    limits: LoginLimits
    audit: Audit
    second_factors: SecondFactors
    now: Clock

    async def check(self, name: str, password: str, caller: Caller) -> LoginIdentity:
        """Return the account with this name and password. Raises `RateLimited` or `BadCredentials`, which is counted.

        Asks for no second factor: a client that also shows a session has already shown one.
        """
        identity = await self._check_password(name, password, caller)
        if identity.totp_secret is None:
            self.limits.succeed(identity.subject, identity.key, identity.counter, caller)
        else:  # failures stay counted until a code is right: a password must not make room to guess codes
            self.limits.refund(identity.subject, identity.counter)
        self.limits.count_right(identity.key)
        return identity

    async def check_with_totp(
        self, name: str, password: str, totp: str | None, caller: Caller, *, captcha_solved: bool | None = None
    ) -> LoginIdentity:
        """Return the account with this name, password and, where the user has one, second factor.

        The caller has to use up the second factor (`use_second_factor`). Raises `RateLimited`, `BadCredentials` and
        `TotpRequired`: for a missing code, which is no failure, and for a wrong or spent one, which is counted like a
        wrong password. `captcha_solved` None: the request cannot have a captcha.
        """
        identity = await self._check_password(name, password, caller, captcha_solved)
        if identity.totp_secret is not None:
            if not totp or not totp.strip():
                self.limits.refund(identity.subject, identity.counter)
                raise errors.TotpRequired
            identity = await self._check_code(identity, identity.totp_secret, totp, caller)
        self.limits.succeed(identity.subject, identity.key, identity.counter, caller)
        self.limits.count_right(identity.key)
        return identity

    async def check_owner(self, session: VerifiedSession, password: str, caller: Caller) -> LoginIdentity:
        """Check the password of a session's user again.

        Raises `WrongPassword`, counted as a failed login, and `Unauthorized` if the session has ended meanwhile.
        """
        try:
            identity = await self.check(session.username, password, caller)
        except errors.BadCredentials:
            raise errors.WrongPassword from None
        return _require_owner(identity, session)

    async def recognize_owner(self, session: VerifiedSession, caller: Caller) -> LoginIdentity:
        """Return the account of a session whose password was checked a moment ago, at its login.

        Raises `LoginTooOld`, and `Unauthorized` if the session has ended meanwhile.
        """
        if self.now() - session.started_at > FRESH_SESSION:
            raise errors.LoginTooOld(minutes=round(FRESH_SESSION.total_seconds() / 60))
        identity = await self.worker.run(self.find_identity, session.username, caller)
        if identity.user_id != session.user_id or identity.token_generation != session.token_generation:
            raise errors.Unauthorized
        return identity

    async def check_owner_with_totp(
        self, session: VerifiedSession, password: str, totp: str | None, caller: Caller
    ) -> LoginIdentity:
        """Check password and second factor of a session's user again. Raises `WrongPassword` and `TotpRequired`."""
        try:
            identity = await self.check_with_totp(session.username, password, totp, caller)
        except errors.BadCredentials:
            raise errors.WrongPassword from None
        return _require_owner(identity, session)

    def find_identity(self, name: str, caller: Caller) -> LoginIdentity:
        """Return the account with this name or verified e-mail address. Blocking.

        Raises `AuthMeUnavailable`: a row that cannot be read may have a lock, another password or a second factor.
        """
        subject = login_subject(name)
        key = _find_key(subject)
        try:
            account = self._load(key or _NOBODY)
            if account.user is None and account.player is None and (other := turkish_key(name)) != subject:
                found = self._load(other)
                key, account = (other, found) if found.user is not None else (key, account)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if key is None:
            return LoginIdentity(subject, name, None)
        user = account.user
        if user is None:
            return LoginIdentity(key, name, _players_password(account), totp_secret=find_players_totp(account))
        stored, is_own = password_of(account)
        return LoginIdentity(
            key=key,
            username=user.username,
            stored=stored,
            user=user,
            past_logins=self.known_clients.find_past_logins(user.id, caller.limit_key),
            is_own_password=is_own,
            is_returned=is_own and self.reconciler.is_returned(account),
            totp_secret=self._find_totp_secret(user, account),
        )

    def _load(self, key: str) -> Account:
        """Return the account, after what is due for it. Raises `PlayersUnavailable`."""
        # the client has proven nothing yet: mass changes that are held back wait for a sync run
        done = self.reconciler.reconcile(key, may_adopt=False, is_guarded=True)
        return done.account or self.reconciler.load(key)

    def use_second_factor(self, identity: LoginIdentity, user_id: int, caller: Caller) -> bool:
        """Use up the code that was shown, if one was, in the caller's transaction. False: another request used it."""
        if identity.recovery_code is not None:
            is_used = use_recovery_code(user_id, identity.recovery_code)
            if is_used:
                name = identity.username
                self.audit.record("user.recovery_code_used", Actor(name, caller.address), name)
            return is_used
        return identity.totp_step is None or use_time_step(user_id, identity.totp_step)

    async def _check_code(self, identity: LoginIdentity, secret: str, code: str, caller: Caller) -> LoginIdentity:
        """Return the identity with the code of the app, or the recovery code, that was shown.

        Raises `TotpRequired`, and `RateLimited` for a code of the app after too many wrong ones. Recovery codes are too
        long to be guessed: the delays are enough, and the owner gets in with one whatever others guess.
        """
        if identity.user_id is not None and is_recovery_code(code):
            find = self.second_factors.find_recovery_code
            recovery_code = await self.worker.run(find, identity.user_id, code)
            if recovery_code is not None:
                return replace(identity, recovery_code=recovery_code)
        else:
            try:
                self.limits.start_code(identity.key)
            except errors.RateLimited as refusal:
                self.limits.refund(identity.subject, identity.counter)  # nothing was compared
                raise errors.RateLimited(refusal.retry_after or 1, fault="app_codes") from None
            step = find_time_step(secret, code, self.now(), after=identity.last_totp_step)
            if step is not None:
                return replace(identity, totp_step=step)
        await self.worker.run(self.record_wrong_code, identity, caller)
        raise errors.TotpRequired

    def forget_failures(self, owner: User, caller: Caller) -> None:
        """Forget failed logins to this account, after its user set a new password with a link."""
        self.limits.forget(name_key(owner.username), owner.email_key, caller)

    def record_failure(self, identity: LoginIdentity, caller: Caller) -> None:
        """Add a failed login to the audit log. Blocking."""
        self._tally("user.login_failed", identity, caller)

    def record_wrong_code(self, identity: LoginIdentity, caller: Caller) -> None:
        """Add a wrong code after a right password to the audit log: the password may be stolen. Blocking."""
        self._tally("user.totp_failed", identity, caller)

    def _tally(self, action: str, identity: LoginIdentity, caller: Caller) -> None:
        # a name without a user is not kept: people type passwords into the wrong field
        name = identity.username if identity.user_id is not None else None
        self.audit.tally(action, Actor("", caller.address), name, client=caller.limit_key, per=COUNTED_TOGETHER)

    def _find_totp_secret(self, user: UserRecord, account: Account) -> str | None:
        """Return the secret that was set up on the web, which nothing in the game changes; else the player's."""
        if user.totp_enabled_at is not None and user.totp_nonce is not None:
            return self.second_factors.secret_of(user.id, user.totp_nonce)
        return find_players_totp(account)

    async def _check_password(
        self, name: str, password: str, caller: Caller, captcha_solved: bool | None = None
    ) -> LoginIdentity:
        """Check the password alone. The attempt is counted as a failure first; the caller takes that back."""
        subject = login_subject(name)
        self.limits.hit(subject, caller)
        identity = await self.worker.run(self.find_identity, name, caller)
        with self.hashing.reserve():
            counter, delay = await self._start_attempt(subject, caller, captcha_solved)
            verdict = await self.hashing.verify_in_pool(password, identity.stored, identity.username)
        if not verdict or (delay is not None and not identity.is_known_client):
            # a right password during a delay, too: a refusal that takes less time would tell that it is right
            await self.worker.run(self.record_failure, identity, caller)
            raise delay or errors.BadCredentials()
        return replace(identity, subject=subject, counter=counter, rehashed=verdict.rehashed)

    async def _start_attempt(
        self, subject: str, caller: Caller, captcha_solved: bool | None
    ) -> tuple[str | None, RateLimited | None]:
        """Count the attempt as a failure; return its counter and, during a delay, the refusal of a wrong password.

        A delay applies to nobody whose account knows the client. To which account a client is known would tell whose an
        address is: the password is verified for every client that any user logged in from, and only a right one makes a
        difference. Raises `RateLimited`.
        """
        try:
            return self.limits.start_attempt(subject, captcha_solved=captcha_solved), None
        except RateLimited as delay:
            if not await self.worker.run(self.known_clients.is_known, caller.limit_key):
                raise
            with suppress(RateLimited):
                return self.limits.start_known_attempt(subject, caller), delay
            raise


def _require_owner(identity: LoginIdentity, session: VerifiedSession) -> LoginIdentity:
    """Raise `WrongPassword` if the name belongs to another user than when the session began.

    Raises `Unauthorized` if the session has ended since the request was let in, as by a ban.
    """
    if identity.user_id != session.user_id:
        raise errors.WrongPassword
    if identity.token_generation != session.token_generation:
        raise Unauthorized
    return identity
