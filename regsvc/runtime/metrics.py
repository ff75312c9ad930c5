"""Figures for Prometheus. No name, address, path or secret of anybody is ever a label."""

import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regsvc import __version__
from regsvc.auth.hashing import HashPool
from regsvc.database.engine import Worker
from regsvc.notifications.outbox import Outcome
from regsvc.runtime.health import Bridge, HealthStatus
from regsvc.runtime.loop_lag import LoopLag
from regsvc.sync.report import SyncReport

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_BUCKETS: Final = (0.005, 0.02, 0.1, 0.25, 1, 2.5, 10)  # seconds
_NOT_KNOWN: Final = math.nan

# When each counter began is twice as much to scrape, and nothing that `process_start_time_seconds` does not tell.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counted from the start of the process on. What may be called from any thread says so."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        Info("companion_build", "The version that runs.", registry=registry).info({"version": __version__})
        self._requests = Counter(
            "companion_http_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._durations = Histogram(
            "companion_http_request_seconds",
            "From a request to its answer.",
            ["route", "method"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._refusals = Counter("companion_http_refusals", "Requests refused, by code.", ["code"], registry=registry)
        self._mails = Counter("companion_mails", "Mails that are over, by how.", ["outcome"], registry=registry)
        self._webhook_calls = Counter(
            "companion_webhook_calls", "Webhook calls that are over, by how.", ["outcome"], registry=registry
        )
        self._console_commands = Counter(
            "companion_console_commands",
            "Commands for the game's console that are over, by how.",
            ["outcome"],
            registry=registry,
        )
        self._sync = _SyncMetrics(registry)
        self._vitals = _VitalMetrics(registry)

    def watch(self, *collectors: Collector) -> None:
        """Ask these at every scrape, too."""
        for collector in collectors:
            self._registry.register(collector)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """One answer. `route` is a path of the route table, never one that a visitor made up."""
        self._requests.labels(route, method, status).inc()
        self._durations.labels(route, method).observe(seconds)

    def count_refusal(self, code: str) -> None:
        """One refusal, by its code."""
        self._refusals.labels(code).inc()

    def count_mail(self, outcome: Outcome) -> None:
        """One mail that is over. From any thread."""
        self._mails.labels(outcome).inc()

    def count_webhook_call(self, outcome: Outcome) -> None:
        """One event that was told, or given up. From any thread."""
        self._webhook_calls.labels(outcome).inc()

    def count_console_command(self, outcome: Outcome) -> None:
        """One command for the game's console that was taken, or given up. From any thread."""
        self._console_commands.labels(outcome).inc()

    def count_sync(self, report: SyncReport) -> None:
        """One run of the sync that came to its end."""
        self._sync.count(report)

    def text(self, vitals: HealthStatus) -> bytes:
        """Everything, as Prometheus reads it (`CONTENT_TYPE`)."""
        self._vitals.set(vitals)
        return generate_latest(self._registry)


class _SyncMetrics:
    """What the runs of this process did."""

    _CHANGES = ("adopted", "provisioned", "updated", "locked", "restored", "removed")

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Summary("companion_sync_seconds", "Runs of the sync and how long they took.", registry=registry)
        self._succeeded_at = Gauge(
            "companion_sync_last_success_timestamp_seconds",
            "When a run last ended with AuthMe's table there; 0: never.",
            registry=registry,
        )
        self._scanned = Gauge("companion_sync_scanned", "Players looked at by the last run.", registry=registry)
        self._conflicts = Gauge("companion_sync_conflicts", "Conflicts the last run found.", registry=registry)
        self._changes = Counter(
            "companion_sync_changes", "Names changed, by what was done.", ["kind"], registry=registry
        )
        for kind in self._CHANGES:
            self._changes.labels(kind)
        self._errors = Counter("companion_sync_errors", "Names or runs that failed.", registry=registry)

    def count(self, report: SyncReport) -> None:
        seconds = report.duration_ms / 1000
        self._seconds.observe(seconds)
        if report.away is None:
            self._succeeded_at.set(report.started_at.timestamp() + seconds)
        self._scanned.set(report.scanned)
        self._conflicts.set(len(report.conflicts))
        for kind in self._CHANGES:
            self._changes.labels(kind).inc(getattr(report, kind))
        self._errors.inc(len(report.errors))


class _VitalMetrics:
    """What `/health/ready` tells, as gauges; NaN where it is not known."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._database = Gauge(
            "companion_database_up", "1: the database is there and has our tables.", registry=registry
        )
        self._bridge = Gauge(
            "companion_bridge_up",
            "1: AuthMe's table was there at the last run; NaN: no run, no AuthMe.",
            registry=registry,
        )
        self._brake = Gauge(
            "companion_sync_braked", "1: the last run left out what was too much at once.", registry=registry
        )
        self._waiting = Gauge("companion_outbox_waiting", "Mails promised and not yet delivered.", registry=registry)
        self._oldest = Gauge(
            "companion_outbox_oldest_seconds", "Age of the oldest of these; 0: none waits.", registry=registry
        )

    def set(self, vitals: HealthStatus) -> None:
        self._database.set(vitals.is_ready)
        self._bridge.set({Bridge.UP: 1, Bridge.AWAY: 0}.get(vitals.bridge, _NOT_KNOWN))
        self._brake.set(vitals.is_braked)
        if vitals.waiting_mails is None:
            self._waiting.set(_NOT_KNOWN)
            self._oldest.set(_NOT_KNOWN)
            return
        self._waiting.set(vitals.waiting_mails)
        self._oldest.set(vitals.oldest_mail_age.total_seconds() if vitals.oldest_mail_age else 0)


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
