"""How often one may try to log in: per client, per account and client, and a delay per account.

In memory and for the event loop alone.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from regsvc.auth.rate_limits import MAX_KEYS, LimitCheck, MemoryLimits, hash_key
from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited

_FREE_FAILURES = 5

_LONGEST_DELAY = timedelta(seconds=60)

_RETENTION = timedelta(days=1)


@dataclass(slots=True)
class _Failures:
    """Failed logins in a row."""

    count: int
    last_at: datetime
    delayed_until: datetime


class LoginDelays:
    """Failed logins of one account, from all addresses together, only *delay* the next: nobody is locked out.

    The 6th failure in a row delays by a second, each further one by twice as much, to 60 seconds. A known
    client (see `KnownClients`) has a counter of its own: strangers do not hold it up. Accounts are names as
    typed, in lower case, whether or not they exist. For the event loop alone: nothing here is thread-safe.
    """

    def __init__(self, now: Clock, max_keys: int = MAX_KEYS) -> None:
        self._now = now
        self._max_keys = max_keys
        self._failures: OrderedDict[bytes, _Failures] = OrderedDict()

    def check(self, account: str, known_client: str | None = None) -> None:
        """Raises `RateLimited` while the account (for this client, if it is a known one) is delayed."""
        failures = self._failures.get(_account_key(account, known_client))
        if failures is None:
            return
        wait = failures.delayed_until - self._now()
        if wait > timedelta():
            # Never longer than the longest delay: the clock may have been set back.
            raise RateLimited(remaining_seconds=ceil(min(wait, _LONGEST_DELAY).total_seconds()))

    def record_failure(self, account: str, known_client: str | None = None) -> None:
        """Count a failed login. Called before the password is compared, parallel guesses cannot outrun it."""
        now = self._now()
        key = _account_key(account, known_client)
        failures = self._failures.setdefault(key, _Failures(0, now, now))
        self._failures.move_to_end(key)
        failures.count += 1
        failures.last_at = now
        failures.delayed_until = now + _delay_after(failures.count)
        self._evict(now)

    def refund(self, account: str, known_client: str | None = None) -> None:
        """One of the tries counted was no failure; what the others are delayed for stays."""
        failures = self._failures.get(_account_key(account, known_client))
        if failures is not None:
            failures.count = max(0, failures.count - 1)
            failures.delayed_until = failures.last_at + _delay_after(failures.count)

    def reset(self, account: str, known_client: str | None = None) -> None:
        """The password was right: what failed before is forgotten, for the account and for this client."""
        self._failures.pop(_account_key(account, None), None)
        self._failures.pop(_account_key(account, known_client), None)

    def __len__(self) -> int:
        """How many counters are remembered."""
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
    doublings = min(failures - _FREE_FAILURES - 1, 6)  # 64 s is past the longest already
    return min(timedelta(seconds=2**doublings), _LONGEST_DELAY)


def _account_key(account: str, known_client: str | None) -> bytes:
    return hash_key(account, known_client or "")


class LoginLimits:
    """What a login asks before it costs anything, and what it tells afterwards."""

    def __init__(self, limits: MemoryLimits, delays: LoginDelays, live: LiveConfig) -> None:
        self._limits = limits
        self._delays = delays
        self._live = live

    def hit(self, name: str, caller: Caller) -> None:
        """Count one try of a name as it was typed. Raises `RateLimited`."""
        self._limits.hit_all(self._checks(name, caller))

    def start_attempt(self, account: str, caller: Caller, *, is_known_client: bool) -> None:
        """Count the try as failed before the password is looked at; raises `RateLimited` while the account is delayed.

        `is_known_client`: this account logged in from there lately, and strangers' failures do not delay it.
        """
        known_client = caller.limit_key if is_known_client else None
        self._delays.check(account, known_client)
        self._delays.record_failure(account, known_client)

    def reset(self, name: str, account: str, caller: Caller) -> None:
        """The password was right: what was counted for this name on the way is forgotten, for the client too.

        The client's tries of other names stay counted: else somebody with an account of his own would log in now and
        then, and guess at the others without end.
        """
        (client_scope, client, _client_limits), (name_scope, named, _name_limits) = self._checks(name, caller)
        self._limits.refund_hits(client_scope, client, self._limits.hits_of(name_scope, named))
        self._limits.clear(name_scope, named)
        self._delays.reset(account, caller.limit_key)

    def refund(self, account: str, caller: Caller, *, is_known_client: bool) -> None:
        """The try under way was no failure, but it does not clear earlier ones either."""
        self._delays.refund(account, caller.limit_key if is_known_client else None)

    def _checks(self, name: str, caller: Caller) -> list[LimitCheck]:
        login_limits = self._live.current.auth.login_limits
        return [
            ("login.client", caller.limit_key, login_limits),
            ("login.account", f"{name.strip().lower()} {caller.limit_key}", login_limits),
        ]
