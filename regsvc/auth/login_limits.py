"""Login rate limits: per client, per IPv6 network, per name and client, and a delay per name.

In memory; not thread-safe: for the event loop only.
"""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from regsvc.auth.rate_limits import MAX_KEYS, LimitCheck, MemoryLimits, client_checks, hash_key
from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.email_address import parse_email
from regsvc.core.errors import RateLimited, Refusal
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit

_FREE_FAILURES = 5

_LONGEST_DELAY = timedelta(seconds=60)

_RETENTION = timedelta(hours=1)
"""After a quiet hour failures are forgotten: an attacker who waits for that guesses less often than once a minute."""

SOLVED_CAPTCHA: Final = "a solved captcha"
"""Counter of the attempts that came with a solved captcha, from any client."""

_CODE_LIMITS: Final = (RateLimit(10, timedelta(hours=1)), RateLimit(20, timedelta(days=1)))
"""Codes of an app that are compared per account. Of a million codes three are right at any moment."""

_RIGHT_LIMITS: Final = (RateLimit(60, timedelta(hours=1)), RateLimit(600, timedelta(days=1)))
"""Right passwords per account: each may leave a session, an audit entry and a line in the log."""


def login_subject(name: str) -> str:
    """Return what the failures of this name are counted under: an e-mail address as its key, else the name's key.

    It depends on what was typed alone, not on whose address it is: nothing that is counted tells who has an account.
    """
    if "@" in name:
        with suppress(Refusal):
            return parse_email(name).key
    return name_key(name)


@dataclass(slots=True)
class _Failures:
    """Consecutive failed logins."""

    count: int
    last_at: datetime
    previous_at: datetime


class LoginDelays:
    """Delays for logins with one name after failures from any address; nobody is ever locked out.

    The 6th consecutive failure delays by one second, each further one by twice as much, up to 60 seconds. Some attempts
    have a `counter` of their own: those with a solved captcha, and, during a delay, those of one client. Subjects are
    those of `login_subject`, whether or not they exist. Not thread-safe: for the event loop only.
    """

    def __init__(self, now: Clock, max_keys: int = MAX_KEYS) -> None:
        self._now = now
        self._max_keys = max_keys
        self._failures: OrderedDict[bytes, _Failures] = OrderedDict()

    def check(self, subject: str, counter: str | None = None) -> None:
        """Raise `RateLimited` while logins with this name are delayed."""
        failures = self._failures.get(_failures_key(subject, counter))
        if failures is None:
            return
        now = self._now()
        failures.last_at = min(failures.last_at, now)  # the clock may have been set back
        wait = failures.last_at + _delay_after(failures.count) - now
        if wait > timedelta():
            raise RateLimited(remaining_seconds=ceil(wait.total_seconds()))

    def record_failure(self, subject: str, counter: str | None = None) -> None:
        """Count a failed login. Called before the password is verified, so that parallel guesses count too."""
        now = self._now()
        self._evict(now)
        key = _failures_key(subject, counter)
        failures = self._failures.setdefault(key, _Failures(0, now, now))
        self._failures.move_to_end(key)
        failures.count += 1
        failures.previous_at, failures.last_at = failures.last_at, now
        if len(self._failures) > self._max_keys:
            self._failures.popitem(last=False)

    def refund(self, subject: str, counter: str | None = None) -> None:
        """Take back the last counted attempt, which was no failure: the delay is what it was before."""
        failures = self._failures.get(_failures_key(subject, counter))
        if failures is not None:
            failures.count = max(0, failures.count - 1)
            failures.last_at = failures.previous_at

    def reset(self, subject: str, *counters: str | None) -> None:
        """Forget the failures in these counters."""
        for counter in counters:
            self._failures.pop(_failures_key(subject, counter), None)

    def __len__(self) -> int:
        """The number of counters in memory."""
        return len(self._failures)

    def _evict(self, now: datetime) -> None:
        """Forget what was last counted too long ago; the oldest come first."""
        while self._failures and now - next(iter(self._failures.values())).last_at >= _RETENTION:
            self._failures.popitem(last=False)


def _delay_after(failures: int) -> timedelta:
    if failures <= _FREE_FAILURES:
        return timedelta()
    doublings = min(failures - _FREE_FAILURES - 1, 6)  # 64 s already exceeds the longest delay
    return min(timedelta(seconds=2**doublings), _LONGEST_DELAY)


def _failures_key(subject: str, counter: str | None) -> bytes:
    return hash_key(subject, counter or "")


class LoginLimits:
    """All limits on logins: what is checked before one costs anything, and what is reset afterwards.

    A `subject` is what `login_subject` returns, an `account` the key of the user or player: only a right password may
    change what is counted under that.
    """

    def __init__(
        self, limits: MemoryLimits, account_limits: MemoryLimits, delays: LoginDelays, live: LiveConfig
    ) -> None:
        """`account_limits` counts nothing else, so that attempts with other names evict no account from it."""
        self._limits = limits
        self._account_limits = account_limits
        self._delays = delays
        self._live = live

    def hit(self, subject: str, caller: Caller) -> None:
        """Count one attempt. Raises `RateLimited`."""
        self._limits.hit_all(self._checks(subject, caller))

    def start_attempt(self, subject: str, *, captcha_solved: bool | None = None) -> str | None:
        """Count the attempt as failed before the password is verified. Raises `RateLimited` during a delay.

        Failures without a captcha do not delay an attempt with one. `captcha_solved` None: the request cannot have one.
        Returns the counter, for `refund` and `succeed`.
        """
        counter = SOLVED_CAPTCHA if captcha_solved else None
        try:
            self._start(subject, counter)
        except RateLimited as refusal:
            raise RateLimited(refusal.retry_after or 1, captcha_helps=captcha_solved is False) from None
        return counter

    def start_known_attempt(self, subject: str, caller: Caller) -> str:
        """Count an attempt during a delay, from a client that may be known to the account, as `start_attempt` does."""
        self._start(subject, caller.limit_key)
        return caller.limit_key

    def start_code(self, account: str) -> None:
        """Count a code of an app before it is compared, whatever client shows it. Raises `RateLimited`.

        The password was right, and the delays alone would leave more than a thousand guesses a day.
        """
        self._account_limits.hit("login.code", account, _CODE_LIMITS)

    def succeed(self, subject: str, account: str, counter: str | None, caller: Caller) -> None:
        """Forget what was counted for this name, also against the client, after a correct password and code.

        The client's attempts with other names stay counted: otherwise an attacker with an account could log in every
        now and then and guess other users' passwords without limit. For an address, other clients' failures stay, too:
        an attacker who counts would learn that its owner has logged in, and so that it has one.
        """
        (name_scope, named, _limits), *others = self._checks(subject, caller)
        hits = self._limits.hits_of(name_scope, named)
        for scope, other, _limits in others:
            self._limits.refund_hits(scope, other, hits)
        self._limits.clear(name_scope, named)
        self._account_limits.clear("login.code", account)
        if "@" in subject:
            self._delays.refund(subject, counter)
            self._delays.reset(subject, caller.limit_key)
        else:
            self._delays.reset(subject, None, SOLVED_CAPTCHA, caller.limit_key)

    def count_right(self, account: str) -> None:
        """Count a right password, with the code if one is needed. Raises `RateLimited` if there were too many."""
        self._account_limits.hit("login.right", account, _RIGHT_LIMITS)

    def forget(self, account: str, email_key: str | None, caller: Caller) -> None:
        """Forget what delays this client, after the user set a new password with a link."""
        self.succeed(account, account, None, caller)
        self._account_limits.clear("login.right", account)
        if email_key is not None:
            self._delays.reset(email_key, caller.limit_key)

    def refund(self, subject: str, counter: str | None) -> None:
        """Take back the attempt under way, which was no failure; earlier failures stay."""
        self._delays.refund(subject, counter)

    def _start(self, subject: str, counter: str | None) -> None:
        self._delays.check(subject, counter)
        self._delays.record_failure(subject, counter)

    def _checks(self, subject: str, caller: Caller) -> list[LimitCheck]:
        """Return the limits of an attempt; the first one is that of the name and client."""
        limits = self._live.current.auth.login_limits
        of_name = ("login.account", f"{subject} {caller.limit_key}", limits)
        return [of_name, *client_checks("login.client", caller.address, limits)]
