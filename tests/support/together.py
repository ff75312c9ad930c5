"""Many at the same moment, and how long each of them takes."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What each call came back with, in their order; all begin at the same moment, on threads of their own."""
    start = Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def median_seconds(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each call, by name. They take turns, so that whatever else runs slows all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _round in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def assert_alike(measure: Callable[[], Mapping[str, float]], within: float, tries: int = 3) -> None:
    """The medians that `measure` finds differ by less than `within` seconds, at least once.

    A machine that is busy with something else makes differences, but not three times; one of ours is there every time.
    """
    found = []
    for _try in range(tries):
        medians = measure()
        if max(medians.values()) - min(medians.values()) < within:
            return
        found.append(medians)
    raise AssertionError(f"{tries} times apart: {found}")
