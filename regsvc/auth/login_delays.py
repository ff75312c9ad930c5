"""What follows failed logins: a delay for strangers, a counter of their own for clients we know."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from regsvc.auth.rate_limits import MAX_KEYS, digest
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited
from regsvc.database.models import KnownClient
from regsvc.database.upsert import insert_or_update

_FREE_FAILURES = 5
_LONGEST_DELAY = timedelta(seconds=60)
_FORGOTTEN_AFTER = timedelta(days=1)
_KNOWN_FOR = timedelta(days=30)


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
        failures = self._failures.get(_account_digest(account, known_client))
        if failures is None:
            return
        wait = failures.delayed_until - self._now()
        if wait > timedelta():
            # Never longer than the longest delay: the clock may have been set back.
            raise RateLimited(remaining_seconds=ceil(min(wait, _LONGEST_DELAY).total_seconds()))

    def failed(self, account: str, known_client: str | None = None) -> None:
        """Count a failed login. Called before the password is compared, parallel guesses cannot outrun it."""
        now = self._now()
        key = _account_digest(account, known_client)
        failures = self._failures.setdefault(key, _Failures(0, now, now))
        self._failures.move_to_end(key)
        failures.count += 1
        failures.last_at = now
        failures.delayed_until = now + _delay_after(failures.count)
        self._forget(now)

    def forgiven(self, account: str, known_client: str | None = None) -> None:
        """One of the tries counted was no failure; what the others are delayed for stays."""
        failures = self._failures.get(_account_digest(account, known_client))
        if failures is not None:
            failures.count = max(0, failures.count - 1)
            failures.delayed_until = failures.last_at + _delay_after(failures.count)

    def cleared(self, account: str, known_client: str | None = None) -> None:
        """The password was right: what failed before is forgotten, for the account and for this client."""
        self._failures.pop(_account_digest(account, None), None)
        self._failures.pop(_account_digest(account, known_client), None)

    def __len__(self) -> int:
        """How many counters are remembered."""
        return len(self._failures)

    def _forget(self, now: datetime) -> None:
        while self._failures:
            oldest = next(iter(self._failures.values()))
            is_recent = now - oldest.last_at < _FORGOTTEN_AFTER
            if is_recent and len(self._failures) <= self._max_keys:
                return
            self._failures.popitem(last=False)


def _delay_after(failures: int) -> timedelta:
    if failures <= _FREE_FAILURES:
        return timedelta()
    doublings = min(failures - _FREE_FAILURES - 1, 6)  # 64 s is past the longest already
    return min(timedelta(seconds=2**doublings), _LONGEST_DELAY)


def _account_digest(account: str, known_client: str | None) -> bytes:
    return digest(account, known_client or "")


class KnownClients:
    """From which clients (address; of IPv6 the /64) users logged in during the last 30 days. Plain SQL."""

    def __init__(self, now: Clock) -> None:
        self._now = now

    def is_known(self, user_id: int, client: str) -> bool:
        return bool(
            KnownClient.select()
            .where(
                KnownClient.user == user_id,
                KnownClient.client == client,
                KnownClient.last_login_at > self._now() - _KNOWN_FOR,
            )
            .exists()
        )

    def remember(self, user_id: int, client: str) -> None:
        """Note a login that succeeded, in the caller's transaction."""
        now = self._now()
        insert_or_update(
            KnownClient,
            {KnownClient.user: user_id, KnownClient.client: client, KnownClient.last_login_at: now},
            unique=(KnownClient.user, KnownClient.client),
            changes={KnownClient.last_login_at: now},
        )

    def purge(self) -> int:
        """Remove those that are no longer known, and tell how many."""
        is_old = KnownClient.last_login_at <= self._now() - _KNOWN_FOR
        removed: int = KnownClient.delete().where(is_old).execute()
        return removed
