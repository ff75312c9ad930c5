"""Password check, with the second factor where the user has one; shared by the logins and changes to an account.

Looking up (SQL on a worker thread) and verifying (the hash pool) never overlap.
"""

from dataclasses import replace
from datetime import timedelta

from regsvc.accounts.login_lookup import LoginIdentity, LoginLookup
from regsvc.auth.hashing import PasswordHashing
from regsvc.auth.login_limits import LoginLimits
from regsvc.auth.second_factor import SecondFactors, is_recovery_code, use_recovery_code
from regsvc.auth.totp import find_time_step, use_time_step
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.names import name_key
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker

FRESH_SESSION = timedelta(minutes=15)
"""How long after a login its password counts as just checked."""

FAILURES_TOGETHER = timedelta(hours=1)
"""Failures of one client within this time are one audit entry."""


class PasswordChecker:
    """Password check within the login limits; failures are counted."""

    def __init__(
        self,
        worker: Worker,
        lookup: LoginLookup,
        hashing: PasswordHashing,
        limits: LoginLimits,
        audit: Audit,
        second_factors: SecondFactors,
        now: Clock,
    ) -> None:
        self._worker = worker
        self._lookup = lookup
        self._hashing = hashing
        self._limits = limits
        self._audit = audit
        self._second_factors = second_factors
        self._now = now

    async def check(self, name: str, password: str, caller: Caller) -> LoginIdentity:
        """Return the account with this name and password. Raises `RateLimited` or `BadCredentials`, which is counted.

        Asks for no second factor: a client that also shows a session has already shown one.
        """
        identity = await self._check_password(name, password, caller)
        if identity.totp_secret is None:
            self._limits.reset(name, identity.key, caller)
        else:  # failures stay counted until a code is right: a password must not make room to guess codes
            self._limits.refund(identity.key, identity.counter)
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
                self._limits.refund(identity.key, identity.counter)
                raise errors.TotpRequired
            identity = await self._check_code(identity, identity.totp_secret, totp, caller)
        self._limits.reset(name, identity.key, caller)
        return identity

    async def check_owner(self, session: VerifiedSession, password: str, caller: Caller) -> LoginIdentity:
        """Check the password of a session's user again. Raises `WrongPassword`, counted as a failed login."""
        try:
            identity = await self.check(session.username, password, caller)
        except errors.BadCredentials:
            raise errors.WrongPassword from None
        return _require_owner(identity, session)

    async def recognize_owner(self, session: VerifiedSession, caller: Caller) -> LoginIdentity:
        """Return the account of a session whose password was checked a moment ago, at its login.

        Raises `LoginTooOld`, and `Unauthorized` if the session has ended meanwhile.
        """
        if self._now() - session.started_at > FRESH_SESSION:
            raise errors.LoginTooOld(minutes=round(FRESH_SESSION.total_seconds() / 60))
        identity = await self._worker.run(self._lookup.find, session.username, caller)
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

    def use_second_factor(self, identity: LoginIdentity, user_id: int, caller: Caller) -> bool:
        """Use up the code that was shown, if one was, in the caller's transaction. False: another request used it."""
        if identity.recovery_code is not None:
            is_used = use_recovery_code(user_id, identity.recovery_code)
            if is_used:
                name = identity.username
                self._audit.record("user.recovery_code_used", name, name, ip=caller.address)
            return is_used
        return identity.totp_step is None or use_time_step(user_id, identity.totp_step)

    async def _check_code(self, identity: LoginIdentity, secret: str, code: str, caller: Caller) -> LoginIdentity:
        """Return the identity with the code of the app, or the recovery code, that was shown.

        Raises `TotpRequired`, and `RateLimited` for a code of the app after too many wrong ones. Recovery codes are too
        long to be guessed: the delays are enough, and the owner gets in with one whatever others guess.
        """
        if identity.user_id is not None and is_recovery_code(code):
            find = self._second_factors.find_recovery_code
            recovery_code = await self._worker.run(find, identity.user_id, code)
            if recovery_code is not None:
                return replace(identity, recovery_code=recovery_code)
        else:
            try:
                self._limits.start_code(identity.key)
            except errors.RateLimited as refusal:
                self._limits.refund(identity.key, identity.counter)  # nothing was compared
                raise errors.RateLimited(refusal.retry_after or 1, fault="app_codes") from None
            step = find_time_step(secret, code, self._now(), after=identity.last_totp_step)
            if step is not None:
                return replace(identity, totp_step=step)
        await self._worker.run(self.record_wrong_code, identity, caller)
        raise errors.TotpRequired

    def forget_failures(self, username: str, caller: Caller) -> None:
        """Forget failed logins to this account, after its user set a new password with a link."""
        self._limits.reset(username, name_key(username), caller)

    def record_failure(self, identity: LoginIdentity, caller: Caller) -> None:
        """Add a wrong password to the audit log. Blocking."""
        self._tally("user.login_failed", identity, caller)

    def record_wrong_code(self, identity: LoginIdentity, caller: Caller) -> None:
        """Add a wrong code after a right password to the audit log: the password may be stolen. Blocking."""
        self._tally("user.totp_failed", identity, caller)

    def _tally(self, action: str, identity: LoginIdentity, caller: Caller) -> None:
        # a name without a user is not kept: people type passwords into the wrong field
        name = identity.username if identity.user_id is not None else None
        self._audit.tally(action, "", name, caller.address, client=caller.limit_key, per=FAILURES_TOGETHER)

    async def _check_password(
        self, name: str, password: str, caller: Caller, captcha_solved: bool | None = None
    ) -> LoginIdentity:
        """Check the password alone. The attempt is counted as a failure first; the caller takes that back."""
        self._limits.hit(name, caller)
        identity = await self._worker.run(self._lookup.find, name, caller)
        with self._hashing.reserve():
            counter = self._limits.start_attempt(
                identity.key, caller, is_known_client=identity.is_known_client, captcha_solved=captcha_solved
            )
            verdict = await self._hashing.verify_in_pool(password, identity.stored, identity.username)
        if not verdict:
            await self._worker.run(self.record_failure, identity, caller)
            raise errors.BadCredentials
        return replace(identity, counter=counter, rehashed=verdict.rehashed)


def _require_owner(identity: LoginIdentity, session: VerifiedSession) -> LoginIdentity:
    """Raise `WrongPassword` if the name belongs to another user than when the session began."""
    if identity.user_id != session.user_id:
        raise errors.WrongPassword
    return identity
