"""Figures that are looked up when somebody scrapes, because nobody has to count them meanwhile."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regsvc.auth.hashing import HashPool
from regsvc.database.engine import Worker
from regsvc.runtime.loop_lag import LoopLag


class QueueFigures(Collector):
    """What waits for a thread, and how late the event loop is."""

    def __init__(self, worker: Worker, hash_pool: HashPool, loop_lag: LoopLag) -> None:
        self._worker = worker
        self._hash_pool = hash_pool
        self._loop_lag = loop_lag

    def collect(self) -> Iterator[Metric]:
        pool = self._hash_pool
        yield GaugeMetricFamily("companion_hash_running", "Passwords being hashed now.", pool.running)
        yield GaugeMetricFamily("companion_hash_waiting", "Passwords that wait to be hashed.", pool.waiting)
        yield CounterMetricFamily("companion_hash_refused", "Passwords not taken on: too many waited.", pool.refused)
        yield GaugeMetricFamily(
            "companion_worker_waiting", "Requests that wait for a database thread.", self._worker.waiting
        )
        yield GaugeMetricFamily(
            "companion_loop_lag_seconds", "Longest lag of the event loop in the last minute.", self._loop_lag.seconds
        )


class ProcessFigures(Collector):
    """Memory, processor and files of this process, under the names that all Prometheus clients use.

    prometheus_client's own collector tells nothing where /proc shows processes only, which is how our systemd unit
    runs us (`ProcSubset=pid`).
    """

    def __init__(self) -> None:
        self._started_at = time.time()
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "process_cpu_seconds", "Total user and system CPU time spent in seconds.", time.process_time()
        )
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", self._started_at
        )
        yield GaugeMetricFamily("process_threads", "Threads of the process.", threading.active_count())
        try:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            open_files = sum(1 for _file in Path("/proc/self/fd").iterdir())
        except OSError:  # no Linux, and hence no such figures
            return
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory size in bytes.", pages * self._page_bytes
        )
        yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", open_files)
