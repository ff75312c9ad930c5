"""Rate limits, in the database (they survive a restart) and in memory.

Both count in fixed windows that begin with their first hit. A refused hit is not counted: a client that waits as
long as the reply says gets through. Limits that all clients share are divided, so that no client and no network uses
them up alone. The `limits` package has no store in SQL, but mails are counted in the transaction that queues them.
"""

import itertools
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from math import ceil
from typing import Final, NamedTuple

from regsvc.config.live import LiveConfig
from regsvc.core.addresses import NETWORK_FACTOR, Caller, is_in_networks, limit_key, network_key
from regsvc.core.clock import SKEW, Clock
from regsvc.core.email_address import parse_email
from regsvc.core.errors import RateLimited, Refusal
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.bulk import upsert_query
from regsvc.database.models import RateLimitWindow

LimitCheck = tuple[str, str, Sequence[RateLimit]]
"""The scope (what is limited), the subject (a client, address or account), and the limits that apply."""

_OF_A_MEMBER: Final = (RateLimit(600, timedelta(hours=1)), RateLimit(3000, timedelta(days=1)))
MAX_KEYS = 20_000  # about 10 MB in memory

_KEPT = timedelta(days=2)

_SLOTS: Final = 8
"""Windows in which the hits of one period on a total are counted, and summed up.

A hit locks one of them, so that daemons on the nodes of a cluster seldom write the same row. Hits in other windows that
are not committed yet are not seen: a limit may be exceeded by 7, one less than there are windows.
"""

REGISTRATIONS: Final = "registration.total"
"""Scope of the limits on registrations that require no code by e-mail."""
_RESERVE: Final = 3
"""A third of a shared limit is left to networks without a hit in the period, and to known clients."""


def hash_key(*parts: str) -> bytes:
    """Return a key of fixed size: text typed by clients must neither fill the memory nor stay in it."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()


def client_checks(scope: str, address: str, limits: Sequence[RateLimit], *, is_hop: bool = False) -> list[LimitCheck]:
    """Return the limits of a client, and those of its IPv6 network, all of which one subscriber may have."""
    client, network = limit_key(address), network_key(address)
    checks: list[LimitCheck] = [(scope, client, _times(NETWORK_FACTOR, limits) if is_hop else limits)]
    if network != client:
        checks.append((f"{scope}.network", network, _times(NETWORK_FACTOR, limits)))
    return checks


def limits_of(caller: Caller, limits: Sequence[RateLimit]) -> Sequence[RateLimit]:
    """Return the limits of a client; those of a network where a tunnel or CDN hides who of many it is.

    Not for what is limited per account: nobody gets more guesses at one password.
    """
    return _times(NETWORK_FACTOR, limits) if caller.is_hop else limits


def _times(factor: int, limits: Sequence[RateLimit]) -> list[RateLimit]:
    return [replace(limit, hits=limit.hits * factor) for limit in limits]


class WindowKey(NamedTuple):
    """Key of a window: every period of a limit has its own."""

    scope: str
    subject: str
    period_seconds: int


Windows = Mapping[WindowKey, RateLimitWindow]


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """Limits of all clients together on a scope and subject, as a client of `network` meets them.

    `is_known` returns whether the client may use the reserve anyway; it is asked only when that makes a difference.
    """

    scope: str
    limits: Sequence[RateLimit]
    network: str = ""
    is_known: Callable[[], bool] = lambda: False
    subject: str = ""
    network_divisor: int = 1
    """Of 2, one network gets half of the limits."""
    slots: int = 1

    @property
    def network_check(self) -> LimitCheck:
        """The limits of the network alone. An e-mail address may fill the column by itself: a digest stands for it."""
        limits = [RateLimit(max(1, limit.hits // self.network_divisor), limit.period) for limit in self.limits]
        subject = self.network
        if self.subject:
            subject = blake2b(f"{self.subject} {self.network}".encode(), digest_size=16).hexdigest()
        return f"{self.scope}.network", subject, limits

    def slot(self, number: int, limit: RateLimit) -> WindowKey:
        """Return the window of this number, of those whose hits are summed up."""
        return WindowKey(self.scope, f"{self.subject}{number or ''}", _period_seconds(limit))

    def all_slots(self) -> list[WindowKey]:
        """Return the windows to sum up."""
        return [self.slot(number, limit) for limit in self.limits for number in range(self.slots)]

    def find_used_up(self, windows: Windows, now: datetime) -> list[tuple[RateLimit, int]]:
        """Return the limits that are used up, but for their reserve, and the seconds until they are not."""
        waits = [(limit, self._wait_below(_open_to_all(limit), limit, windows, now)) for limit in self.limits]
        return [(limit, wait) for limit, wait in waits if wait]

    def wait(self, windows: Windows, now: datetime) -> int:
        """Return the seconds until the limits accept a hit; 0: now. `windows` has all slots and the network's."""
        return max((self._wait(limit, windows, now) for limit in self.limits), default=0)

    def _wait(self, limit: RateLimit, windows: Windows, now: datetime) -> int:
        wait = self._wait_below(limit.hits, limit, windows, now)
        if wait or not (wait_of_all := self._wait_below(_open_to_all(limit), limit, windows, now)):
            return wait
        scope, subject, _limits = self.network_check
        own = windows.get(WindowKey(scope, subject, _period_seconds(limit)))
        is_first = own is None or own.hits == 0 or not _is_open(own, now)
        return 0 if is_first or self.is_known() else wait_of_all

    def _wait_below(self, allowed: int, limit: RateLimit, windows: Windows, now: datetime) -> int:
        """Return the seconds until the slots of this limit hold fewer hits than allowed; 0: they do."""
        found = [windows[key] for number in range(self.slots) if (key := self.slot(number, limit)) in windows]
        current = sorted((window for window in found if _is_open(window, now)), key=lambda window: window.ends_at)
        hits, until = sum(window.hits for window in current), now
        for window in current:
            if hits < allowed:
                break
            hits, until = hits - window.hits, window.ends_at
        return _seconds_until(until, now)


def team_writes(member: str) -> list[LimitCheck]:
    """Return the limit on notes, questions and points of a member of the team and their tokens: they are kept for long.

    `member` is a name in any spelling; "": the host on the command line, who is not limited.
    """
    return [("team.writes", member.lower(), _OF_A_MEMBER)] if member else []


def in_total(
    scope: str, limits: Sequence[RateLimit], network: str = "", is_known: Callable[[], bool] = lambda: False
) -> SharedLimits:
    """Return limits on everything, of which one network gets half."""
    return SharedLimits(scope, limits, network, is_known, network_divisor=2, slots=_SLOTS)


def _open_to_all(limit: RateLimit) -> int:
    return limit.hits - limit.hits // _RESERVE


@dataclass(frozen=True)
class LockedWindows:
    """The windows of one hit, locked until the transaction ends."""

    windows: Windows
    slot_number: int
    now: datetime

    def wait(self, shared: SharedLimits) -> int:
        """Return the seconds until shared limits accept the hit; 0: now."""
        return shared.wait(self.windows, self.now)

    def count(self, shared: SharedLimits) -> None:
        """Count the hit on shared limits, in one of their windows."""
        for limit in shared.limits:
            self.add_hit(shared.slot(self.slot_number % shared.slots, limit))

    def add_hit(self, key: WindowKey) -> None:
        """Add one hit to a current window; start any other anew with one."""
        window = self.windows[key]
        if _is_open(window, self.now):
            window.hits += 1
        else:
            window.started_at, window.hits = self.now, 1
            window.ends_at = self.now + timedelta(seconds=window.period_seconds)

    def seconds_until_next(self, check: LimitCheck) -> int:
        """Return the seconds until the next hit would be counted for this subject; 0: now."""
        return _longest_wait(self.windows, _allowed_by_window([check]), self.now)


@dataclass(frozen=True)
class DurableLimits:
    """Limits kept in the database: exact across threads and processes, and kept across restarts."""

    now: Clock

    def hit(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Count one hit in the caller's transaction. Raises `RateLimited`, without counting, if a limit is used up."""
        self.hit_all([(scope, subject, limits)])

    def hit_all(self, checks: Sequence[LimitCheck], shared: Sequence[SharedLimits] = ()) -> None:
        """Count one hit for several subjects, and on `shared` limits: all are counted, or none.

        Raises `RateLimited`.
        """
        # a savepoint: a refusal leaves no rows behind
        with RateLimitWindow._meta.database.atomic(), self.counting(checks, shared) as windows:
            _refuse_until(max(map(windows.wait, shared), default=0))
            for limits in shared:
                windows.count(limits)

    @contextmanager
    def counting(
        self, checks: Sequence[LimitCheck], shared: Sequence[SharedLimits] = (), *, writes_twice: bool = False
    ) -> Iterator[LockedWindows]:
        """Count one hit for several subjects and for the client's part of `shared` limits: all are counted, or none.

        Whether the shared limits accept the hit, and whether it is counted there, is left to the block, which may raise
        a refusal. Raises `RateLimited` if another limit is used up. A refusal has to end the caller's transaction.

        Every window is written with the hit, and once more where that is wrong: where an earlier one is over, or the
        block does not count. `writes_twice`: always, so that the time taken does not tell what the block did.
        """
        slot_number = random.randrange(_SLOTS)  # noqa: S311 - any will do
        allowed = _allowed_by_window([*checks, *(limits.network_check for limits in shared)])
        slots = {each.slot(slot_number % each.slots, limit) for each in shared for limit in each.limits}
        summed = {key for limits in shared for key in limits.all_slots()}
        written = sorted({*allowed, *slots})
        _add_hits(written, self.now())
        windows = _find_windows(sorted({*written, *summed}))
        now = self.now()  # after waiting for the locks: the previous holder may have started the window
        stored = {key: (windows[key].ends_at, windows[key].hits) for key in written}
        for key in written:
            windows[key].hits -= 1  # as it was before
        _refuse_until(_longest_wait(windows, allowed, now))
        locked = LockedWindows(windows, slot_number, now)
        yield locked
        for key in allowed:
            locked.add_hit(key)
        _store_windows(
            [
                windows[key]
                for key in written
                if writes_twice or (windows[key].ends_at, windows[key].hits) != stored[key]
            ]
        )

    def remaining_seconds(self, checks: Sequence[LimitCheck], shared: Sequence[SharedLimits] = ()) -> int:
        """Return the whole seconds until `hit_all` would count the next hit; 0: now."""
        allowed = _allowed_by_window([*checks, *(limits.network_check for limits in shared)])
        summed = {key for limits in shared for key in limits.all_slots()}
        windows, now = _find_windows(sorted({*allowed, *summed})), self.now()
        return max([_longest_wait(windows, allowed, now), *(limits.wait(windows, now) for limits in shared)])

    def purge(self, kept: timedelta = _KEPT) -> int:
        """Delete windows that ended longer ago than `kept`; returns their number."""
        removed: int = RateLimitWindow.delete().where(RateLimitWindow.ends_at < self.now() - kept).execute()
        return removed


def _allowed_by_window(checks: Iterable[LimitCheck]) -> dict[WindowKey, int]:
    """Return how many hits each window may hold; of two limits with one period the lower one counts."""
    allowed: dict[WindowKey, int] = {}
    for scope, subject, limits in checks:
        for limit in limits:
            key = WindowKey(scope, subject, _period_seconds(limit))
            allowed[key] = min(limit.hits, allowed.get(key, limit.hits))
    return allowed


def _longest_wait(windows: Windows, allowed: Mapping[WindowKey, int], now: datetime) -> int:
    """Return the seconds until all these windows accept the next hit; 0: now. A missing one accepts it."""
    return max((_wait(windows[key], hits, now) for key, hits in allowed.items() if key in windows), default=0)


def _wait(window: RateLimitWindow, allowed: int, now: datetime) -> int:
    """Return the seconds until this window accepts the next hit; 0: now."""
    if window.hits < allowed or not _is_open(window, now):
        return 0
    return _seconds_until(window.ends_at, now)


def _period_seconds(limit: RateLimit) -> int:
    """Return the length of the limit's windows."""
    return math.ceil(limit.period.total_seconds())


def _is_open(window: RateLimitWindow, now: datetime) -> bool:
    """Return whether the window is the current one of its period."""
    return _is_current(window.ends_at, timedelta(seconds=window.period_seconds), now)


def _is_current(ends_at: datetime, period: timedelta, now: datetime) -> bool:
    """Return whether a window is current. One that ends too late was started before the clock was set back."""
    return now < ends_at <= now + period + SKEW


def _seconds_until(moment: datetime, now: datetime) -> int:
    """Return the whole seconds from now until this moment."""
    return math.ceil((moment - now).total_seconds())


def _find_windows(keys: Sequence[WindowKey]) -> dict[WindowKey, RateLimitWindow]:
    """Return the windows that exist."""
    if not keys:
        return {}
    mark = RateLimitWindow._meta.database.param
    names = [field.column_name for field in _KEY_FIELDS]
    wanted = " OR ".join([" AND ".join(f"{name} = {mark}" for name in names)] * len(keys))
    columns = ", ".join([*names, *(field.column_name for field in _VALUE_FIELDS)])
    # not by the query builder, which takes longer for so many conditions than the database
    sql = f"SELECT {columns} FROM {RateLimitWindow._meta.table_name} WHERE {wanted}"  # noqa: S608
    rows = RateLimitWindow.raw(sql, *itertools.chain.from_iterable(keys))
    return {WindowKey(row.scope, row.subject, row.period_seconds): row for row in rows}


def _add_hits(keys: Sequence[WindowKey], now: datetime) -> None:
    """Add a hit to each window, which locks them until the transaction ends; missing ones are started with it.

    All transactions pass `keys` in order and so lock in one order: they cannot deadlock. A plain INSERT that meets a
    concurrent one leaves shared locks, and two holders of those deadlock.
    """
    if keys:
        rows = [
            {**key._asdict(), "started_at": now, "ends_at": now + timedelta(seconds=key.period_seconds), "hits": 1}
            for key in keys
        ]
        hits = RateLimitWindow.hits
        upsert_query(RateLimitWindow, rows, unique=_KEY_FIELDS, changes={hits: hits + 1}).execute()


def _store_windows(windows: Sequence[RateLimitWindow]) -> None:
    """Store windows that are locked."""
    if windows:
        rows = [window.__data__ for window in windows]
        upsert_query(RateLimitWindow, rows, unique=_KEY_FIELDS, overwrite=_VALUE_FIELDS).execute()


_KEY_FIELDS: Final = (RateLimitWindow.scope, RateLimitWindow.subject, RateLimitWindow.period_seconds)
_VALUE_FIELDS: Final = (RateLimitWindow.started_at, RateLimitWindow.ends_at, RateLimitWindow.hits)


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
        keyed = [(hash_key(scope, subject), limits) for scope, subject, limits in checks if limits]
        _refuse_until(max([0, *(self._wait(key, limits, now) for key, limits in keyed)]))
        for key, limits in keyed:
            windows = self._windows.setdefault(key, {})
            self._windows.move_to_end(key)
            for period in {limit.period for limit in limits}:
                window = windows.get(period)
                if window is None or not _is_current(window.ends_at, period, now):
                    windows[period] = _Window(now + period, 1)
                else:
                    window.hits += 1
        self._evict(now)

    def check(self, scope: str, subject: str, limits: Sequence[RateLimit]) -> None:
        """Raise `RateLimited` if a limit is used up, without counting."""
        _refuse_until(self._wait(hash_key(scope, subject), limits, self._now()))

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

    def _wait(self, key: bytes, limits: Sequence[RateLimit], now: datetime) -> int:
        """Return the seconds until these limits accept the next hit; 0: now."""
        windows = self._windows.get(key, {})
        waits = [0]
        for limit in limits:
            window = windows.get(limit.period)
            if window and window.hits >= limit.hits and _is_current(window.ends_at, limit.period, now):
                waits.append(_seconds_until(window.ends_at, now))
        return max(waits)

    def _evict(self, now: datetime) -> None:
        """Evict from the least recently used end: windows that are over, and those beyond `max_keys`."""
        while self._windows:
            windows = next(iter(self._windows.values()))
            is_over = all(window.ends_at <= now for window in windows.values())
            if not is_over and len(self._windows) <= self._max_keys:
                return
            self._windows.popitem(last=False)


@dataclass(frozen=True)
class StatusRateLimits:
    """Limits on status queries, in memory. Not thread-safe: for the event loop only."""

    limits: MemoryLimits
    live: LiveConfig

    def hit(self, address: str) -> None:
        """Count one query of the client at this address. Raises `RateLimited`."""
        http, is_hop = self.live.current.http, address in self.live.hops
        if http.status_limit and (is_hop or not is_in_networks(address, http.trusted_clients)):
            self.limits.hit_all(client_checks("status.client", address, http.status_limit, is_hop=is_hop))


# --- Login rate limits: per client, per IPv6 network, per name and client, and a delay per name ---
# In memory; not thread-safe: for the event loop only.


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


@dataclass(frozen=True)
class LoginLimits:
    """All limits on logins: what is checked before one costs anything, and what is reset afterwards.

    A `subject` is what `login_subject` returns, an `account` the key of the user or player: only a right password may
    change what is counted under that.
    """

    limits: MemoryLimits
    account_limits: MemoryLimits
    """Counts nothing else, so that attempts with other names evict no account from it."""
    delays: LoginDelays
    live: LiveConfig

    def hit(self, subject: str, caller: Caller) -> None:
        """Count one attempt. Raises `RateLimited`."""
        self.limits.hit_all(self._checks(subject, caller))

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
        self.account_limits.hit("login.code", account, _CODE_LIMITS)

    def succeed(self, subject: str, account: str, counter: str | None, caller: Caller) -> None:
        """Forget what was counted for this name, also against the client, after a correct password and code.

        The client's attempts with other names stay counted: otherwise an attacker with an account could log in every
        now and then and guess other users' passwords without limit. For an address, other clients' failures stay, too:
        an attacker who counts would learn that its owner has logged in, and so that it has one.
        """
        (name_scope, named, _limits), *others = self._checks(subject, caller)
        hits = self.limits.hits_of(name_scope, named)
        for scope, other, _limits in others:
            self.limits.refund_hits(scope, other, hits)
        self.limits.clear(name_scope, named)
        self.account_limits.clear("login.code", account)
        if "@" in subject:
            self.delays.refund(subject, counter)
            self.delays.reset(subject, caller.limit_key)
        else:
            self.delays.reset(subject, None, SOLVED_CAPTCHA, caller.limit_key)

    def count_right(self, account: str) -> None:
        """Count a right password, with the code if one is needed. Raises `RateLimited` if there were too many."""
        self.account_limits.hit("login.right", account, _RIGHT_LIMITS)

    def forget(self, account: str, email_key: str | None, caller: Caller) -> None:
        """Forget what delays this client, after the user set a new password with a link."""
        self.succeed(account, account, None, caller)
        self.account_limits.clear("login.right", account)
        if email_key is not None:
            self.delays.reset(email_key, caller.limit_key)

    def refund(self, subject: str, counter: str | None) -> None:
        """Take back the attempt under way, which was no failure; earlier failures stay."""
        self.delays.refund(subject, counter)

    def _start(self, subject: str, counter: str | None) -> None:
        self.delays.check(subject, counter)
        self.delays.record_failure(subject, counter)

    def _checks(self, subject: str, caller: Caller) -> list[LimitCheck]:
        """Return the limits of an attempt; the first one is that of the name and client."""
        limits = self.live.current.auth.login_limits
        of_name = ("login.account", f"{subject} {caller.limit_key}", limits)
        return [of_name, *client_checks("login.client", caller.address, limits, is_hop=caller.is_hop)]
