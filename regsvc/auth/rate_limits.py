"""Rate limits, in the database (they survive a restart) and in memory.

Both count in fixed windows that begin with their first hit. A refused hit is not counted: a client that waits as
long as the reply says gets through.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from regsvc.auth.limit_windows import (
    LimitCheck,
    WindowKey,
    Windows,
    add_hit,
    client_checks,
    find_windows,
    is_current,
    is_open,
    lock_windows,
    period_seconds,
    seconds_until,
    store_windows,
)
from regsvc.auth.shared_limits import SharedHit
from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import RateLimitWindow

MAX_KEYS = 20_000  # about 10 MB in memory
_KEPT = timedelta(days=2)


def hash_key(*parts: str) -> bytes:
    """Return a key of fixed size: text typed by clients must neither fill the memory nor stay in it."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()


class DurableLimits:
    """Limits kept in the database: exact across threads and processes, and kept across restarts."""

    def __init__(self, now: Clock) -> None:
        self._now = now

    def hit(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Count one hit in the caller's transaction. Raises `RateLimited`, without counting, if a limit is used up."""
        self.hit_all([(scope, subject, limits)])

    def hit_all(self, checks: Sequence[LimitCheck], shared: Sequence[SharedHit] = ()) -> list[int]:
        """Count one hit for several subjects, and on `shared` limits: all are counted, or none.

        Returns for each subject the whole seconds until the next hit would be counted; 0: now.
        """
        allowed = _allowed_by_window([*checks, *(hit.network_check for hit in shared)])
        slots = [hit.choose_slots() for hit in shared]
        summed = {key for hit in shared for key in hit.all_slots()}
        with RateLimitWindow._meta.database.atomic():  # a savepoint: a refusal leaves no rows behind
            written = sorted({*allowed, *itertools.chain.from_iterable(slots)})
            lock_windows(written, self._now())
            windows = find_windows(sorted({*written, *summed}))
            now = self._now()  # after waiting for the locks: the previous holder may have started the window
            _refuse_until(_longest_wait(windows, allowed, now))
            waits = [hit.wait(windows, now) for hit in shared]
            _refuse_until(max((wait for hit, wait in zip(shared, waits, strict=True) if not hit.is_silent), default=0))
            uncounted = {
                key
                for hit, wait, keys in zip(shared, waits, slots, strict=True)
                for key in keys
                if wait or not hit.is_counted
            }
            for key in written:
                if key not in uncounted:
                    add_hit(windows[key], now)
            store_windows([windows[key] for key in written])
        return [_longest_wait(windows, _allowed_by_window([check]), now) for check in checks]

    def remaining_seconds(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> int:
        """Return the whole seconds until the next hit would be counted; 0: now."""
        allowed = _allowed_by_window([(scope, subject, limits)])
        return _longest_wait(find_windows(sorted(allowed)), allowed, self._now())

    def purge(self, kept: timedelta = _KEPT) -> int:
        """Delete windows that ended longer ago than `kept`; returns their number."""
        removed: int = RateLimitWindow.delete().where(RateLimitWindow.ends_at < self._now() - kept).execute()
        return removed


def _allowed_by_window(checks: Iterable[LimitCheck]) -> dict[WindowKey, int]:
    """Return how many hits each window may hold; of two limits with one period the lower one counts."""
    allowed: dict[WindowKey, int] = {}
    for scope, subject, limits in checks:
        for limit in limits:
            key = WindowKey(scope, subject, period_seconds(limit))
            allowed[key] = min(limit.hits, allowed.get(key, limit.hits))
    return allowed


def _longest_wait(windows: Windows, allowed: Mapping[WindowKey, int], now: datetime) -> int:
    """Return the seconds until all these windows accept the next hit; 0: now. A missing one accepts it."""
    return max((_wait(windows[key], hits, now) for key, hits in allowed.items() if key in windows), default=0)


def _wait(window: RateLimitWindow, allowed: int, now: datetime) -> int:
    """Return the seconds until this window accepts the next hit; 0: now."""
    if window.hits < allowed or not is_open(window, now):
        return 0
    return seconds_until(window.ends_at, now)


def _refuse_until(seconds: int) -> None:
    if seconds > 0:
        raise RateLimited(remaining_seconds=seconds)


@dataclass(slots=True)
class _Window:
    """A window in memory: its end and its hits so far."""

    ends_at: datetime
    hits: int


class MemoryLimits:
    """Limits for minutes, which may be lost at a restart. Not thread-safe: for the event loop only.

    At most `max_keys` subjects are kept; beyond that the least recently used one is evicted.
    """

    def __init__(self, now: Clock, max_keys: int = MAX_KEYS) -> None:
        self._now = now
        self._max_keys = max_keys
        self._windows: OrderedDict[bytes, dict[timedelta, _Window]] = OrderedDict()

    def hit(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Count one hit. Raises `RateLimited`, without counting, if a limit is used up."""
        self.hit_all([(scope, subject, limits)])

    def hit_all(self, checks: Sequence[LimitCheck]) -> None:
        """Count one hit for several subjects: all are counted, or none."""
        now = self._now()
        _refuse_until(max((self._wait(check, now) for check in checks), default=0))
        for scope, subject, limits in checks:
            if limits:
                self._count(hash_key(scope, subject), limits, now)
        self._evict(now)

    def check(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Raise `RateLimited` if a limit is used up, without counting."""
        _refuse_until(self._wait((scope, subject, limits), self._now()))

    def clear(self, scope: str, subject: str) -> None:
        """Forget the hits of this subject, if there are any."""
        self._windows.pop(hash_key(scope, subject), None)

    def hits_of(self, scope: str, subject: str) -> dict[timedelta, int]:
        """Return the hits in the current windows, by their length; empty where there are none."""
        now = self._now()
        windows = self._windows.get(hash_key(scope, subject), {})
        return {period: window.hits for period, window in windows.items() if window.ends_at > now}

    def refund_hits(self, scope: str, subject: str, hits: Mapping[timedelta, int]) -> None:
        """Take these hits out of the subject's windows, by their length."""
        windows = self._windows.get(hash_key(scope, subject), {})
        for period in hits.keys() & windows.keys():
            windows[period].hits = max(0, windows[period].hits - hits[period])

    def __len__(self) -> int:
        """The number of subjects in memory."""
        return len(self._windows)

    def _wait(self, check: LimitCheck, now: datetime) -> int:
        scope, subject, limits = check
        windows = self._windows.get(hash_key(scope, subject), {})
        waits = [0]
        for limit in limits:
            window = windows.get(limit.period)
            if window and window.hits >= limit.hits and is_current(window.ends_at, limit.period, now):
                waits.append(seconds_until(window.ends_at, now))
        return max(waits)

    def _count(self, key: bytes, limits: Sequence[RateLimit], now: datetime) -> None:
        windows = self._windows.setdefault(key, {})
        self._windows.move_to_end(key)
        for period in {limit.period for limit in limits}:
            window = windows.get(period)
            if window is None or not is_current(window.ends_at, period, now):
                windows[period] = _Window(now + period, 1)
            else:
                window.hits += 1

    def _evict(self, now: datetime) -> None:
        """Evict from the least recently used end: windows that are over, and those beyond `max_keys`."""
        while self._windows:
            windows = next(iter(self._windows.values()))
            is_over = all(window.ends_at <= now for window in windows.values())
            if not is_over and len(self._windows) <= self._max_keys:
                return
            self._windows.popitem(last=False)


class StatusRateLimits:
    """Limits on status queries, in memory. Not thread-safe: for the event loop only."""

    def __init__(self, limits: MemoryLimits, live: LiveConfig, is_trusted: Callable[[str], bool]) -> None:
        """`is_trusted` returns whether an address belongs to `http.trusted_clients`."""
        self._limits = limits
        self._live = live
        self._is_trusted = is_trusted

    def hit(self, caller: Caller) -> None:
        """Count one query. Raises `RateLimited`."""
        status_limit = self._live.current.http.status_limit
        if status_limit and not self._is_trusted(caller.address):
            self._limits.hit_all(client_checks("status.client", caller, status_limit))
