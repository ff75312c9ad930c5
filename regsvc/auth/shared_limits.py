"""Rate limits that all clients share, divided so that no client and no network uses them up alone."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from regsvc.auth.limit_windows import WindowKey, Windows, is_open, period_seconds, seconds_until
from regsvc.core.units import RateLimit

_SLOTS: Final = 8
"""Windows in which the hits of one period are counted, and summed up.

A hit locks one of them, so that daemons on the nodes of a cluster seldom write the same row. Hits in other windows that
are not committed yet are not seen: a limit may be exceeded by 7, one less than there are windows.
"""

_MOST: Final = 2
"""One network gets at most half of a limit."""

_RESERVE: Final = 3
"""A third of a limit is left to networks without a hit in the period, and to known clients."""


@dataclass(frozen=True, slots=True)
class SharedHit:
    """A hit on the limits `scope`, by a client of `network`.

    `is_known` returns whether the client may use the reserve anyway; it is asked only when that makes a difference.
    `is_counted` False: the hit is refused as any other, but costs nothing. `on_refused` is called when these limits
    refuse it.
    """

    scope: str
    limits: Sequence[RateLimit]
    network: str
    is_known: Callable[[], bool]
    on_refused: Callable[[], None]
    is_counted: bool = True

    @property
    def network_check(self) -> tuple[str, str, Sequence[RateLimit]]:
        """The limits of the network, which are counted in any case."""
        return self._network_scope, self.network, [_most(limit) for limit in self.limits]

    def any_slot(self) -> list[WindowKey]:
        """Return the windows to count this hit in."""
        number = random.randrange(_SLOTS)  # noqa: S311 - any will do
        return sorted({_slot(self.scope, number, limit) for limit in self.limits})

    def all_slots(self) -> list[WindowKey]:
        """Return the windows to sum up."""
        return sorted({_slot(self.scope, number, limit) for limit in self.limits for number in range(_SLOTS)})

    def wait(self, windows: Windows, now: datetime) -> int:
        """Return the seconds until the limits accept this hit; 0: now. `windows` has all slots and the network's."""
        seconds = max((self._wait(limit, windows, now) for limit in self.limits), default=0)
        if seconds:
            self.on_refused()
        return seconds

    def _wait(self, limit: RateLimit, windows: Windows, now: datetime) -> int:
        open_to_all = limit.hits - limit.hits // _RESERVE
        wait = _wait(self.scope, limit, limit.hits, windows, now)
        if wait or not (wait_of_all := _wait(self.scope, limit, open_to_all, windows, now)):
            return wait
        own = windows.get(WindowKey(self._network_scope, self.network, period_seconds(limit)))
        is_first = own is None or not is_open(own, now)
        return 0 if is_first or self.is_known() else wait_of_all

    @property
    def _network_scope(self) -> str:
        return f"{self.scope}.network"


def find_used_up(
    scope: str, limits: Sequence[RateLimit], windows: Windows, now: datetime
) -> list[tuple[RateLimit, int]]:
    """Return the limits that are used up, but for their reserve, and the seconds until they are not."""
    waits = [(limit, _wait(scope, limit, limit.hits - limit.hits // _RESERVE, windows, now)) for limit in limits]
    return [(limit, wait) for limit, wait in waits if wait]


def _slot(scope: str, number: int, limit: RateLimit) -> WindowKey:
    return WindowKey(scope, str(number) if number else "", period_seconds(limit))


def _wait(scope: str, limit: RateLimit, allowed: int, windows: Windows, now: datetime) -> int:
    """Return the seconds until the slots of this limit hold fewer hits than allowed; 0: they do."""
    slots = [windows[key] for number in range(_SLOTS) if (key := _slot(scope, number, limit)) in windows]
    current = sorted((slot for slot in slots if is_open(slot, now)), key=lambda slot: slot.ends_at)
    hits, until = sum(slot.hits for slot in current), now
    for slot in current:
        if hits < allowed:
            break
        hits, until = hits - slot.hits, slot.ends_at
    return seconds_until(until, now)


def _most(limit: RateLimit) -> RateLimit:
    return RateLimit(max(1, limit.hits // _MOST), limit.period)
