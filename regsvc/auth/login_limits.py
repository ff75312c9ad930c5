"""Login rate limits: per client, per IPv6 network, per account and client, and a delay per account.

In memory; not thread-safe: for the event loop only.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from regsvc.auth.rate_limits import MAX_KEYS, LimitCheck, MemoryLimits, client_checks, hash_key
from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit

_FREE_FAILURES = 5

_LONGEST_DELAY = timedelta(seconds=60)

_RETENTION = timedelta(days=1)

SOLVED_CAPTCHA: Final = "a solved captcha"
"""Counter of the attempts that came with a solved captcha, from any client."""


_CODE_LIMITS: Final = (RateLimit(10, timedelta(hours=1)), RateLimit(20, timedelta(days=1)))
"""Codes of an app that are compared per account. Of a million codes three are right at any moment."""


@dataclass(slots=True)
class _Failures:
    """Consecutive failed logins."""

    count: int
    last_at: datetime
    delayed_until: datetime


class LoginDelays:
    """Delays for logins to an account after failures from any address; an account is never locked out.

    The 6th consecutive failure delays by one second, each further one by twice as much, up to 60 seconds. Some attempts
    have a `counter` of their own, so that failures without it do not delay them: a known client (see `KnownClients`),
    and all who solved a captcha. Accounts are names as typed, in lower case, whether or not they exist. Not
    thread-safe: for the event loop only.
    """

    def __init__(self, now: Clock, max_keys: int = MAX_KEYS) -> None:
        self._now = now
        self._max_keys = max_keys
        self._failures: OrderedDict[bytes, _Failures] = OrderedDict()

    def check(self, account: str, counter: str | None = None) -> None:
        """Raise `RateLimited` while the account is delayed."""
        failures = self._failures.get(_account_key(account, counter))
        if failures is None:
            return
        wait = failures.delayed_until - self._now()
        if wait > timedelta():
            # never longer than the longest delay: the clock may have been set back
            raise RateLimited(remaining_seconds=ceil(min(wait, _LONGEST_DELAY).total_seconds()))

    def record_failure(self, account: str, counter: str | None = None) -> None:
        """Count a failed login. Called before the password is verified, so that parallel guesses count too."""
        now = self._now()
        key = _account_key(account, counter)
        failures = self._failures.setdefault(key, _Failures(0, now, now))
        self._failures.move_to_end(key)
        failures.count += 1
        failures.last_at = now
        failures.delayed_until = now + _delay_after(failures.count)
        self._evict(now)

    def refund(self, account: str, counter: str | None = None) -> None:
        """Take back one counted attempt that was no failure; the delay for the others stays."""
        failures = self._failures.get(_account_key(account, counter))
        if failures is not None:
            failures.count = max(0, failures.count - 1)
            failures.delayed_until = failures.last_at + _delay_after(failures.count)

    def reset(self, account: str, known_client: str | None = None) -> None:
        """Forget the failures of the account and of this client, after a correct password."""
        for counter in (None, SOLVED_CAPTCHA, known_client):
            self._failures.pop(_account_key(account, counter), None)

    def __len__(self) -> int:
        """The number of counters in memory."""
        return len(self._failures)

    def _evict(self, now: datetime) -> None:
        while self._failures:
            oldest = next(iter(self._failures.values()))
            is_recent = now - oldest.last_at < _RETENTION
            if is_recent and len(self._failures) <= self._max_keys:
                return
            self._failures.popitem(last=False)


def _delay_after(failures: int) -> timedelta:
    if failures <= _FREE_FAILURES:
        return timedelta()
    doublings = min(failures - _FREE_FAILURES - 1, 6)  # 64 s already exceeds the longest delay
    return min(timedelta(seconds=2**doublings), _LONGEST_DELAY)


def _account_key(account: str, counter: str | None) -> bytes:
    return hash_key(account, counter or "")


class LoginLimits:
    """All limits on logins: what is checked before one costs anything, and what is reset afterwards."""

    def __init__(self, limits: MemoryLimits, code_limits: MemoryLimits, delays: LoginDelays, live: LiveConfig) -> None:
        """`code_limits` counts nothing else, so that attempts with other names evict no account from it."""
        self._limits = limits
        self._code_limits = code_limits
        self._delays = delays
        self._live = live

    def hit(self, name: str, caller: Caller) -> None:
        """Count one attempt with a name as typed. Raises `RateLimited`."""
        self._limits.hit_all(self._checks(name, caller))

    def start_attempt(
        self, account: str, caller: Caller, *, is_known_client: bool, captcha_solved: bool | None = None
    ) -> str | None:
        """Count the attempt as failed before the password is verified. Raises `RateLimited` during a delay.

        `is_known_client`: the account logged in from there lately; failures of other clients do not delay it, nor those
        without a captcha an attempt with one. `captcha_solved` None: the request cannot have one. Returns the counter,
        for `refund`.
        """
        counter = caller.limit_key if is_known_client else SOLVED_CAPTCHA if captcha_solved else None
        try:
            self._delays.check(account, counter)
        except RateLimited as refusal:
            captcha_helps = counter is None and captcha_solved is not None
            raise RateLimited(refusal.retry_after or 1, captcha_helps=captcha_helps) from None
        self._delays.record_failure(account, counter)
        return counter

    def start_code(self, account: str) -> None:
        """Count a code of an app before it is compared, whatever client shows it. Raises `RateLimited`.

        The password was right, and the delays alone would leave more than a thousand guesses a day.
        """
        self._code_limits.hit("login.code", account, _CODE_LIMITS)

    def reset(self, name: str, account: str, caller: Caller) -> None:
        """Forget what was counted for this name, also against the client, after a correct password and code.

        The client's attempts with other names stay counted: otherwise an attacker with an account could log in every
        now and then and guess other users' passwords without limit.
        """
        (name_scope, named, _limits), *others = self._checks(name, caller)
        hits = self._limits.hits_of(name_scope, named)
        for scope, subject, _limits in others:
            self._limits.refund_hits(scope, subject, hits)
        self._limits.clear(name_scope, named)
        self._code_limits.clear("login.code", account)
        self._delays.reset(account, caller.limit_key)

    def refund(self, account: str, counter: str | None) -> None:
        """Take back the attempt under way, which was no failure; earlier failures stay."""
        self._delays.refund(account, counter)

    def _checks(self, name: str, caller: Caller) -> list[LimitCheck]:
        """Return the limits of an attempt; the first one is that of the account and client."""
        limits = self._live.current.auth.login_limits
        of_account = ("login.account", f"{name_key(name)} {caller.limit_key}", limits)
        return [of_account, *client_checks("login.client", caller, limits)]
