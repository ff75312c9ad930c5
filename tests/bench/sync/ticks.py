"""Runs of the sync in the daemon, and how long they take."""

import json
import statistics
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from tests.bench.figures import Row
from tests.bench.players import insert_players
from tests.bench.sync.changes import Change, Crowd
from tests.support.daemon import HOST
from tests.support.stack import Stack

CONFIG: dict[str, dict[str, Any]] = {"log": {"level": "warning"}, "sync": {"max_changes": "20 and 100%"}}


class Ticks:
    """Measurements on one stack with adopted players."""

    def __init__(self, stack: Stack, players: int, runs: int) -> None:
        self._stack = stack
        self._runs = runs
        self._players = players
        self.crowd = Crowd(stack, players)
        self.idle = 0.0

    def adopt(self) -> float:
        """Return the seconds of the first adoption."""
        adoption = sync(self._stack)
        assert adoption["adopted"] == self._players, adoption
        sync(self._stack)  # looks at what the first one wrote
        sync(self._stack)
        return duration(adoption)

    def measure_idle(self, change: Change | None = None) -> float:
        """Return the median of ticks that find nothing to do, each after `change`."""
        times = []
        for _run in range(self._runs):
            if change is not None:
                change(self.crowd, 1)
            times.append(duration(sync(self._stack)))
        return statistics.median(times)

    def measure(self, change: Change, count: int, runs: int | None = None) -> float:
        """Return the median of the ticks that find so many changes."""
        return statistics.median(self._tick_after(change, count) for _run in range(runs or self._runs))

    def row(self, what: str, change: Change, count: int, bar: str, goal: str, runs: int | None = None) -> Row:
        """Return a line with the time of such a tick and what it adds to an idle one."""
        count = scaled(count, self._players)
        taken = self.measure(change, count, runs)
        return (what.format(count=f"{count:,}"), bar, goal, f"{taken:.2f} s, idle + {taken - self.idle:.2f} s")

    def measure_full(self) -> float:
        """Return the seconds of a run that compares every row."""
        self.crowd.require_full()
        return duration(sync(self._stack))

    def _tick_after(self, change: Change, count: int) -> float:
        """Return the seconds of the tick that finds the change; the next one finds what that one wrote."""
        change(self.crowd, count)
        found = sync(self._stack)
        assert found["braked"] is None, found
        self.crowd.drop_mails()
        sync(self._stack)
        sync(self._stack)
        return duration(found)


def scaled(count: int, players: int) -> int:
    """Return fewer changes for fewer players than a hundred times as many."""
    return min(count, max(20, players * count // 100_000 // 4 * 4))


def prepare(stack: Stack, players: int, runs: int) -> Ticks:
    """Insert the players, once the daemon's first run is over, which would find half of them."""
    sync(stack)
    insert_players(stack, players)
    return Ticks(stack, players, runs)


def sync(stack: Stack) -> dict[str, Any]:
    """Run the sync in the daemon, however long it takes; return its report."""
    connection = HTTPConnection(HOST, stack.daemon.port, timeout=3600)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {stack.olivia()}"}
    with closing(connection):
        connection.request("POST", "/api/admin/sync", "{}", headers)
        reply = json.loads(connection.getresponse().read())
    report: dict[str, Any] = reply["report"]
    return report


def duration(report: dict[str, Any]) -> float:
    return float(report["durationMs"]) / 1000
