"""How often something may happen: limits that survive a restart, and limits in memory.

Both count in fixed windows that begin with their first hit. A refusal counts nothing: who waits as told gets
through.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

from peewee import Field

from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import RateLimitWindow
from regsvc.database.upsert import insert_or_update

LimitCheck = tuple[str, str, Sequence[RateLimit]]
"""Scope (what is limited), subject (for whom), and the limits that apply to it."""

MAX_KEYS = 20_000  # in memory about 10 MB
_CLOCK_SKEW = timedelta(minutes=1)  # between two processes


def hash_key(*parts: str) -> bytes:
    """A key of one size for texts of any: what strangers type must not fill the memory, nor stay in it."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()


class _WindowKey(NamedTuple):
    """Every period of a limit has a window of its own."""

    scope: str
    subject: str
    period_seconds: int


class DurableLimits:
    """Limits kept in the database: exact between threads and processes, and alive after a restart."""

    def __init__(self, now: Clock) -> None:
        self._now = now

    def hit(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Count one hit in the caller's transaction. Raises `RateLimited`, without counting, if one is used up."""
        self.hit_all([(scope, subject, limits)])

    def hit_all(self, checks: Iterable[LimitCheck]) -> None:
        """The same for several subjects at once: all are counted, or none is."""
        allowed = _allowed_by_window(checks)
        with RateLimitWindow._meta.database.atomic():  # a savepoint: a refusal leaves no rows behind
            # Everybody locks in this order, so nobody waits for one who waits for him.
            windows = {key: _lock_window(key, self._now()) for key in sorted(allowed)}
            now = self._now()  # after waiting for the locks: who counted before us may have started the window
            _refuse_until(max((_wait(windows[key], allowed[key], now) for key in windows), default=0))
            _count(list(windows.values()), now)

    def remaining_seconds(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> int:
        """Whole seconds until the next hit would be counted; 0: now."""
        now = self._now()
        waits = [0]
        for key, hits in _allowed_by_window([(scope, subject, limits)]).items():
            window = _find_window(key)
            if window is not None:
                waits.append(_wait(window, hits, now))
        return max(waits)

    def purge(self, before: datetime) -> int:
        """Remove windows that ended before this moment, and tell how many."""
        removed: int = RateLimitWindow.delete().where(RateLimitWindow.ends_at < before).execute()
        return removed


def _allowed_by_window(checks: Iterable[LimitCheck]) -> dict[_WindowKey, int]:
    """How many hits each window may hold; of two limits with one period the narrower counts."""
    allowed: dict[_WindowKey, int] = {}
    for scope, subject, limits in checks:
        for limit in limits:
            key = _WindowKey(scope, subject, math.ceil(limit.period.total_seconds()))
            allowed[key] = min(limit.hits, allowed.get(key, limit.hits))
    return allowed


def _find_window(key: _WindowKey, *, is_locked: bool = False) -> RateLimitWindow | None:
    """One row by all columns of its unique index, so that locking it locks nothing else."""
    query = RateLimitWindow.select().where(
        RateLimitWindow.scope == key.scope,
        RateLimitWindow.subject == key.subject,
        RateLimitWindow.period_seconds == key.period_seconds,
    )
    # SQLite has no row locks and needs none: our transactions hold its write lock from their beginning.
    if is_locked and RateLimitWindow._meta.database.for_update:
        query = query.for_update()
    window: RateLimitWindow | None = query.first()
    return window


def _lock_window(key: _WindowKey, now: datetime) -> RateLimitWindow:
    """The window's row, ours until the transaction ends; made, already over, where there is none."""
    window = _find_window(key, is_locked=True)
    if window is None:
        row: dict[Field, Any] = {
            RateLimitWindow.scope: key.scope,
            RateLimitWindow.subject: key.subject,
            RateLimitWindow.period_seconds: key.period_seconds,
            RateLimitWindow.started_at: now,
            RateLimitWindow.ends_at: now,
            RateLimitWindow.hits: 0,
        }
        unique = (RateLimitWindow.scope, RateLimitWindow.subject, RateLimitWindow.period_seconds)
        # A plain INSERT that meets another's leaves shared locks, and two who have those deadlock.
        insert_or_update(RateLimitWindow, row, unique=unique, changes={RateLimitWindow.hits: RateLimitWindow.hits})
        window = _find_window(key, is_locked=True)
        assert window is not None
    return window


def _count(windows: Sequence[RateLimitWindow], now: datetime) -> None:
    """One hit more in windows under way, the first in those that are over."""
    hits = RateLimitWindow.hits
    under_way = [window.id for window in windows if _is_open(window, now)]
    if under_way:
        RateLimitWindow.update({hits: hits + 1}).where(RateLimitWindow.id.in_(under_way)).execute()
    for window in windows:
        if window.id not in under_way:
            ends_at = now + timedelta(seconds=window.period_seconds)
            begin = RateLimitWindow.update(started_at=now, ends_at=ends_at, hits=1)
            begin.where(RateLimitWindow.id == window.id).execute()


def _is_open(window: RateLimitWindow, now: datetime) -> bool:
    return _is_current(window.ends_at, timedelta(seconds=window.period_seconds), now)


def _wait(window: RateLimitWindow, allowed: int, now: datetime) -> int:
    """Seconds until this window lets the next hit in; 0: now."""
    if window.hits < allowed or not _is_open(window, now):
        return 0
    return _whole_seconds(window.ends_at - now)


def _is_current(ends_at: datetime, period: timedelta, now: datetime) -> bool:
    """Whether a window is under way. One that ends too late is from before the clock was set back."""
    return now < ends_at <= now + period + _CLOCK_SKEW


def _whole_seconds(wait: timedelta) -> int:
    return math.ceil(wait.total_seconds())


def _refuse_until(seconds: int) -> None:
    if seconds > 0:
        raise RateLimited(remaining_seconds=seconds)


@dataclass(slots=True)
class _Window:
    """In memory: when it ends, and its hits so far."""

    ends_at: datetime
    hits: int


class MemoryLimits:
    """Limits for minutes, which a restart may forget. For the event loop alone: nothing here is thread-safe.

    At most `max_keys` subjects are remembered; of more, the one that was quiet the longest is forgotten.
    """

    def __init__(self, now: Clock, max_keys: int = MAX_KEYS) -> None:
        self._now = now
        self._max_keys = max_keys
        self._windows: OrderedDict[bytes, dict[timedelta, _Window]] = OrderedDict()

    def hit(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Count one hit. Raises `RateLimited` without counting if a limit is used up."""
        self.hit_all([(scope, subject, limits)])

    def hit_all(self, checks: Sequence[LimitCheck]) -> None:
        """The same for several subjects at once: all are counted, or none is."""
        now = self._now()
        _refuse_until(max((self._wait(check, now) for check in checks), default=0))
        for scope, subject, limits in checks:
            if limits:
                self._count(hash_key(scope, subject), limits, now)
        self._evict(now)

    def clear(self, scope: str, subject: str) -> None:
        """Forget the hits of this subject; nothing happens if there are none."""
        self._windows.pop(hash_key(scope, subject), None)

    def hits_of(self, scope: str, subject: str) -> dict[timedelta, int]:
        """How often it was counted in the windows under way, by their length; empty where it was not."""
        now = self._now()
        windows = self._windows.get(hash_key(scope, subject), {})
        return {period: window.hits for period, window in windows.items() if window.ends_at > now}

    def refund_hits(self, scope: str, subject: str, hits: Mapping[timedelta, int]) -> None:
        """Take so many hits out of its windows of these lengths."""
        windows = self._windows.get(hash_key(scope, subject), {})
        for period in hits.keys() & windows.keys():
            windows[period].hits = max(0, windows[period].hits - hits[period])

    def __len__(self) -> int:
        """How many subjects are remembered."""
        return len(self._windows)

    def _wait(self, check: LimitCheck, now: datetime) -> int:
        scope, subject, limits = check
        windows = self._windows.get(hash_key(scope, subject), {})
        waits = [0]
        for limit in limits:
            window = windows.get(limit.period)
            if window and window.hits >= limit.hits and _is_current(window.ends_at, limit.period, now):
                waits.append(_whole_seconds(window.ends_at - now))
        return max(waits)

    def _count(self, key: bytes, limits: Sequence[RateLimit], now: datetime) -> None:
        windows = self._windows.setdefault(key, {})
        self._windows.move_to_end(key)
        for period in {limit.period for limit in limits}:
            window = windows.get(period)
            if window is None or not _is_current(window.ends_at, period, now):
                windows[period] = _Window(now + period, 1)
            else:
                window.hits += 1

    def _evict(self, now: datetime) -> None:
        """From the quiet end: whatever is over, and what there is no room for."""
        while self._windows:
            windows = next(iter(self._windows.values()))
            is_over = all(window.ends_at <= now for window in windows.values())
            if not is_over and len(self._windows) <= self._max_keys:
                return
            self._windows.popitem(last=False)


class StatusRateLimits:
    """In memory and for the event loop alone."""

    def __init__(self, limits: MemoryLimits, live: LiveConfig, is_trusted: Callable[[str], bool]) -> None:
        """`is_trusted` tells by address whether a client is one of `http.trusted_clients`."""
        self._limits = limits
        self._live = live
        self._is_trusted = is_trusted

    def hit(self, caller: Caller) -> None:
        """Count one question. Raises `RateLimited`."""
        status_limit = self._live.current.http.status_limit
        if status_limit and not self._is_trusted(caller.address):
            self._limits.hit("status.client", caller.limit_key, status_limit)
