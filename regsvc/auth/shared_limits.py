"""Rate limits that several networks share, divided so that no client and no network uses them up alone."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Final

from regsvc.auth.limit_windows import LimitCheck, WindowKey, Windows, is_open, period_seconds, seconds_until
from regsvc.core.units import RateLimit

_SLOTS: Final = 8
"""Windows in which the hits of one period are counted, and summed up.

A hit locks one of them, so that daemons on the nodes of a cluster seldom write the same row. Hits in other windows that
are not committed yet are not seen: a limit may be exceeded by 7, one less than there are windows.
"""

_RESERVE: Final = 3
"""A third of a limit is left to networks without a hit in the period, and to known clients."""


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """Limits of all clients together on a scope and subject."""

    scope: str
    limits: Sequence[RateLimit]
    subject: str = ""
    network_divisor: int = 1
    """Of 2, one network gets half of the limits."""
    slots: int = 1

    def slots_of(self, limit: RateLimit) -> list[WindowKey]:
        """Return the windows whose hits are summed up."""
        return [self.slot(number, limit) for number in range(self.slots)]

    def slot(self, number: int, limit: RateLimit) -> WindowKey:
        """Return the window of this number."""
        return WindowKey(self.scope, f"{self.subject}{number or ''}", period_seconds(limit))

    def find_used_up(self, windows: Windows, now: datetime) -> list[tuple[RateLimit, int]]:
        """Return the limits that are used up, but for their reserve, and the seconds until they are not."""
        waits = [(limit, self.wait(limit, _open_to_all(limit), windows, now)) for limit in self.limits]
        return [(limit, wait) for limit, wait in waits if wait]

    def wait(self, limit: RateLimit, allowed: int, windows: Windows, now: datetime) -> int:
        """Return the seconds until the slots of this limit hold fewer hits than allowed; 0: they do."""
        slots = [windows[key] for key in self.slots_of(limit) if key in windows]
        current = sorted((slot for slot in slots if is_open(slot, now)), key=lambda slot: slot.ends_at)
        hits, until = sum(slot.hits for slot in current), now
        for slot in current:
            if hits < allowed:
                break
            hits, until = hits - slot.hits, slot.ends_at
        return seconds_until(until, now)


def in_total(scope: str, limits: Sequence[RateLimit]) -> SharedLimits:
    """Return limits on everything, of which one network gets half."""
    return SharedLimits(scope, limits, network_divisor=2, slots=_SLOTS)


@dataclass(frozen=True, slots=True)
class SharedHit:
    """A hit on shared limits, by a client of `network`.

    `is_known` returns whether the client may use the reserve anyway; it is asked only when that makes a difference.
    `is_counted` False: the hit is refused as any other, but costs nothing. `on_refused` is called when these limits
    refuse it; `is_silent`: nothing is raised then.
    """

    shared: SharedLimits
    network: str
    is_known: Callable[[], bool]
    on_refused: Callable[[], None] = lambda: None
    is_counted: bool = True
    is_silent: bool = False

    @property
    def network_check(self) -> LimitCheck:
        """The limits of the network, which are counted in any case."""
        divisor = self.shared.network_divisor
        limits = [RateLimit(max(1, limit.hits // divisor), limit.period) for limit in self.shared.limits]
        return f"{self.shared.scope}.network", self._network_subject, limits

    def choose_slots(self) -> list[WindowKey]:
        """Return the windows to count this hit in."""
        number = random.randrange(self.shared.slots)  # noqa: S311 - any will do
        return [self.shared.slot(number, limit) for limit in self.shared.limits]

    def all_slots(self) -> list[WindowKey]:
        """Return the windows to sum up."""
        return [key for limit in self.shared.limits for key in self.shared.slots_of(limit)]

    def wait(self, windows: Windows, now: datetime) -> int:
        """Return the seconds until the limits accept this hit; 0: now. `windows` has all slots and the network's."""
        seconds = max((self._wait(limit, windows, now) for limit in self.shared.limits), default=0)
        if seconds:
            self.on_refused()
        return seconds

    def _wait(self, limit: RateLimit, windows: Windows, now: datetime) -> int:
        wait = self.shared.wait(limit, limit.hits, windows, now)
        if wait or not (wait_of_all := self.shared.wait(limit, _open_to_all(limit), windows, now)):
            return wait
        scope, subject, _limits = self.network_check
        own = windows.get(WindowKey(scope, subject, period_seconds(limit)))
        is_first = own is None or not is_open(own, now)
        return 0 if is_first or self.is_known() else wait_of_all

    @property
    def _network_subject(self) -> str:
        """The network, with the shared subject as a digest: an e-mail address may fill the column by itself."""
        if not self.shared.subject:
            return self.network
        return blake2b(f"{self.shared.subject} {self.network}".encode(), digest_size=16).hexdigest()


def _open_to_all(limit: RateLimit) -> int:
    return limit.hits - limit.hits // _RESERVE
