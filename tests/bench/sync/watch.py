"""Requests to the daemon while it runs the sync, and its memory."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection

from tests.bench.figures import resident_mib
from tests.bench.load import Paths, load
from tests.support.daemon import HOST
from tests.support.stack import Stack

PAUSE = 0.005  # seconds between two probes of the event loop
PROBED, LOADED = 3.0, 2.0  # seconds: in turn, since a queue of requests is not a blocked loop


@dataclass
class Watch:
    """Figures of the daemon during a run of the sync."""

    latencies: list[float] = field(default_factory=list)  # ms
    rates: list[float] = field(default_factory=list)  # requests a second
    growth: float = 0.0  # MiB

    @property
    def p99(self) -> float:
        """The 99th percentile of the latency of a trivial request, in milliseconds."""
        return statistics.quantiles(self.latencies, n=100)[-1]


@contextmanager
def watching(stack: Stack, paths: Paths | None = None) -> Iterator[Watch]:
    """Send one trivial request after the other; with `paths`, a load every few seconds in between."""
    watch, is_over, before = Watch(), threading.Event(), resident_mib(stack.daemon.pid)
    peak = [before]

    def probe(connection: HTTPConnection) -> None:
        began = time.perf_counter()
        connection.request("GET", "/health/alive")
        connection.getresponse().read()
        watch.latencies.append((time.perf_counter() - began) * 1000)
        peak[0] = max(peak[0], resident_mib(stack.daemon.pid))

    def ask() -> None:
        with closing(HTTPConnection(HOST, stack.daemon.port, timeout=60)) as connection:
            while not is_over.is_set():
                ends_at = time.monotonic() + PROBED
                while time.monotonic() < ends_at and not is_over.wait(PAUSE):
                    probe(connection)
                if paths is not None and not is_over.is_set():
                    rate = load(stack.daemon.port, paths, LOADED).rate
                    if not is_over.is_set():
                        watch.rates.append(rate)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield watch
    finally:
        is_over.set()
        asking.join()
        watch.growth = peak[0] - before
