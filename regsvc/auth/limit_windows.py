"""Windows of the rate limits in the database: found, locked and stored with one statement each."""

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from regsvc.core.addresses import NETWORK_FACTOR
from regsvc.core.caller import Caller
from regsvc.core.units import RateLimit
from regsvc.database.bulk import upsert_query
from regsvc.database.models import RateLimitWindow
from regsvc.database.prepared import PreparedQuery, slot

LimitCheck = tuple[str, str, Sequence[RateLimit]]
"""The scope (what is limited), the subject (a client, address or account), and the limits that apply."""

_CLOCK_SKEW = timedelta(minutes=1)  # between two processes


class WindowKey(NamedTuple):
    """Key of a window: every period of a limit has its own."""

    scope: str
    subject: str
    period_seconds: int


Windows = Mapping[WindowKey, RateLimitWindow]


def client_checks(scope: str, caller: Caller, limits: Sequence[RateLimit]) -> list[LimitCheck]:
    """Return the limits of a client, and those of its IPv6 network, all of which one subscriber may have."""
    checks: list[LimitCheck] = [(scope, caller.limit_key, limits)]
    if caller.network_key != caller.limit_key:
        of_network = [replace(limit, hits=limit.hits * NETWORK_FACTOR) for limit in limits]
        checks.append((f"{scope}.network", caller.network_key, of_network))
    return checks


def period_seconds(limit: RateLimit) -> int:
    """Return the length of the limit's windows."""
    return math.ceil(limit.period.total_seconds())


def find_windows(keys: Sequence[WindowKey]) -> dict[WindowKey, RateLimitWindow]:
    """Return the windows that exist."""
    if not keys:
        return {}
    rows = _window_queries(len(keys)).find.rows(**_numbered(keys))
    return {WindowKey(row.scope, row.subject, row.period_seconds): row for row in rows}


def lock_windows(keys: Sequence[WindowKey], now: datetime) -> None:
    """Lock windows until the transaction ends; they are created, already over, where missing.

    All transactions pass `keys` in order and so lock in one order: they cannot deadlock.
    """
    if keys:
        times = {"started_at": now, "ends_at": now}
        _window_queries(len(keys)).lock.execute(**_numbered([{**key._asdict(), **times, "hits": 0} for key in keys]))


def store_windows(windows: Sequence[RateLimitWindow]) -> None:
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


def add_hit(window: RateLimitWindow, now: datetime) -> None:
    """Add one hit to a current window; start any other anew with one."""
    if is_open(window, now):
        window.hits += 1
    else:
        window.started_at, window.hits = now, 1
        window.ends_at = now + timedelta(seconds=window.period_seconds)


def is_open(window: RateLimitWindow, now: datetime) -> bool:
    """Return whether the window is the current one of its period."""
    return is_current(window.ends_at, timedelta(seconds=window.period_seconds), now)


def is_current(ends_at: datetime, period: timedelta, now: datetime) -> bool:
    """Return whether a window is current. One that ends too late was started before the clock was set back."""
    return now < ends_at <= now + period + _CLOCK_SKEW


def seconds_until(moment: datetime, now: datetime) -> int:
    """Return the whole seconds from now until this moment."""
    return math.ceil((moment - now).total_seconds())
