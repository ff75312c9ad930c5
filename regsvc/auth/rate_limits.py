"""Rate limits, in the database (they survive a restart) and in memory.

Both count in fixed windows that begin with their first hit. A refused hit is not counted: a client that waits as
long as the reply says gets through.
"""

import functools
import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from regsvc.config.live import LiveConfig
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import RateLimitWindow
from regsvc.database.prepared import PreparedQuery, slot
from regsvc.database.upsert import upsert_query

LimitCheck = tuple[str, str, Sequence[RateLimit]]
"""The scope (what is limited), the subject (a client, address or account), and the limits that apply."""

MAX_KEYS = 20_000  # about 10 MB in memory
_CLOCK_SKEW = timedelta(minutes=1)  # between two processes


def hash_key(*parts: str) -> bytes:
    """Return a key of fixed size: text typed by clients must neither fill the memory nor stay in it."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()


class _WindowKey(NamedTuple):
    """Key of a window: every period of a limit has its own."""

    scope: str
    subject: str
    period_seconds: int


class DurableLimits:
    """Limits kept in the database: exact across threads and processes, and kept across restarts."""

    def __init__(self, now: Clock) -> None:
        self._now = now

    def hit(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Count one hit in the caller's transaction. Raises `RateLimited`, without counting, if a limit is used up."""
        self.hit_all([(scope, subject, limits)])

    def hit_all(self, checks: Sequence[LimitCheck]) -> list[int]:
        """Count one hit for several subjects: all are counted, or none.

        Returns for each of them the whole seconds until the next hit would be counted; 0: now.
        """
        allowed = _allowed_by_window(checks)
        with RateLimitWindow._meta.database.atomic():  # a savepoint: a refusal leaves no rows behind
            windows = _lock_windows(sorted(allowed), self._now())
            now = self._now()  # after waiting for the locks: the previous holder may have started the window
            _refuse_until(_longest_wait(windows, allowed, now))
            for window in windows.values():
                _add_hit(window, now)
            _store_windows(list(windows.values()))
        return [_longest_wait(windows, _allowed_by_window([check]), now) for check in checks]

    def remaining_seconds(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> int:
        """Return the whole seconds until the next hit would be counted; 0: now."""
        allowed = _allowed_by_window([(scope, subject, limits)])
        return _longest_wait(_find_windows(sorted(allowed)), allowed, self._now())

    def purge(self, before: datetime) -> int:
        """Delete windows that ended before this moment; returns their number."""
        removed: int = RateLimitWindow.delete().where(RateLimitWindow.ends_at < before).execute()
        return removed


def _allowed_by_window(checks: Iterable[LimitCheck]) -> dict[_WindowKey, int]:
    """Return how many hits each window may hold; of two limits with one period the lower one counts."""
    allowed: dict[_WindowKey, int] = {}
    for scope, subject, limits in checks:
        for limit in limits:
            key = _WindowKey(scope, subject, math.ceil(limit.period.total_seconds()))
            allowed[key] = min(limit.hits, allowed.get(key, limit.hits))
    return allowed


def _find_windows(keys: Sequence[_WindowKey]) -> dict[_WindowKey, RateLimitWindow]:
    if not keys:
        return {}
    rows = _window_queries(len(keys)).find.rows(**_numbered(keys))
    return {_WindowKey(row.scope, row.subject, row.period_seconds): row for row in rows}


def _lock_windows(keys: Sequence[_WindowKey], now: datetime) -> dict[_WindowKey, RateLimitWindow]:
    """Return the windows, locked until the transaction ends; created, already over, where missing.

    All transactions pass `keys` in order and so lock in one order: they cannot deadlock.
    """
    if keys:
        times = {"started_at": now, "ends_at": now}
        _window_queries(len(keys)).lock.execute(**_numbered([{**key._asdict(), **times, "hits": 0} for key in keys]))
    return _find_windows(keys)


def _store_windows(windows: Sequence[RateLimitWindow]) -> None:
    """Store windows that are locked."""
    if windows:
        _window_queries(len(windows)).store.execute(**_numbered([window.__data__ for window in windows]))


class _WindowQueries(NamedTuple):
    """Queries on a number of windows: every key has all columns of the unique index."""

    lock: PreparedQuery
    find: PreparedQuery
    store: PreparedQuery


_KEY_FIELDS: Final = (RateLimitWindow.scope, RateLimitWindow.subject, RateLimitWindow.period_seconds)
_VALUE_FIELDS: Final = (RateLimitWindow.started_at, RateLimitWindow.ends_at, RateLimitWindow.hits)


@functools.cache
def _window_queries(count: int) -> _WindowQueries:
    def rows() -> list[dict[Any, Any]]:
        fields = (*_KEY_FIELDS, *_VALUE_FIELDS)
        return [{field: slot(field, f"{field.name}_{number}") for field in fields} for number in range(count)]

    def lock() -> Any:
        # A plain INSERT that meets a concurrent one leaves shared locks, and two holders of those deadlock.
        hits = RateLimitWindow.hits
        return upsert_query(RateLimitWindow, rows(), unique=_KEY_FIELDS, changes={hits: hits})

    def find() -> Any:
        keys = [
            functools.reduce(operator.and_, [field == slot(field, f"{field.name}_{number}") for field in _KEY_FIELDS])
            for number in range(count)
        ]
        return RateLimitWindow.select(*_KEY_FIELDS, *_VALUE_FIELDS).where(functools.reduce(operator.or_, keys))

    def store() -> Any:
        return upsert_query(RateLimitWindow, rows(), unique=_KEY_FIELDS, overwrite=_VALUE_FIELDS)

    return _WindowQueries(*(PreparedQuery(RateLimitWindow, build) for build in (lock, find, store)))


def _numbered(rows: Iterable[Any]) -> dict[str, Any]:
    """Return the values of all rows by name and number of the row."""
    by_row = (row if isinstance(row, Mapping) else row._asdict() for row in rows)
    return {f"{name}_{number}": value for number, row in enumerate(by_row) for name, value in row.items()}


def _add_hit(window: RateLimitWindow, now: datetime) -> None:
    """Add one hit to a current window; start any other anew with one."""
    if _is_open(window, now):
        window.hits += 1
    else:
        window.started_at, window.hits = now, 1
        window.ends_at = now + timedelta(seconds=window.period_seconds)


def _longest_wait(
    windows: Mapping[_WindowKey, RateLimitWindow], allowed: Mapping[_WindowKey, int], now: datetime
) -> int:
    """Return the seconds until all these windows accept the next hit; 0: now. A missing one accepts it."""
    return max((_wait(windows[key], hits, now) for key, hits in allowed.items() if key in windows), default=0)


def _is_open(window: RateLimitWindow, now: datetime) -> bool:
    return _is_current(window.ends_at, timedelta(seconds=window.period_seconds), now)


def _wait(window: RateLimitWindow, allowed: int, now: datetime) -> int:
    """Return the seconds until this window accepts the next hit; 0: now."""
    if window.hits < allowed or not _is_open(window, now):
        return 0
    return _whole_seconds(window.ends_at - now)


def _is_current(ends_at: datetime, period: timedelta, now: datetime) -> bool:
    """Return whether a window is current. One that ends too late was started before the clock was set back."""
    return now < ends_at <= now + period + _CLOCK_SKEW


def _whole_seconds(wait: timedelta) -> int:
    return math.ceil(wait.total_seconds())


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
            self._limits.hit("status.client", caller.limit_key, status_limit)
