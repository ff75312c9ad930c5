"""Metrics for Prometheus. Names, addresses, request paths and secrets are never used as labels."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, Summary
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regsvc import __version__
from regsvc.allowlist.run import COUNTS as LIST_COUNTS
from regsvc.allowlist.run import ListReport
from regsvc.auth.hashing import HashPool
from regsvc.database.engine import Worker
from regsvc.database.models import OutboxEntry
from regsvc.http.metrics import HttpMetrics, make_counter
from regsvc.http.route import Access
from regsvc.notifications.mail.queue import Budget
from regsvc.notifications.outbox import MAX_COUNT, Outcome
from regsvc.runtime.health import PROBES, BridgeState, Health, HealthStatus, WaitingCounts
from regsvc.runtime.logs import count_dropped_lines
from regsvc.sync.report import COUNTS, SyncReport
from regsvc.users.gates import UNSETTLED, EndCause

if TYPE_CHECKING:
    from regsvc.http.call import Call

_INTERVAL: Final = timedelta(seconds=15)  # rare, since every measurement wakes an idle process
_SAMPLES: Final = 4


class LoopLag:
    """Lag of the event loop: how late a repeated timer fires. Use on the event loop only."""

    def __init__(self, every: timedelta = _INTERVAL) -> None:
        self._every = every
        self._lags: deque[float] = deque(maxlen=_SAMPLES)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """The longest lag measured in the last minute; 0 before the first measurement.

        That of a lasting overload: a stall of a second is seen once in fifteen times.
        """
        return max(self._lags, default=0.0)

    def start(self) -> None:
        """Measure until `stop` is called. Requires a running loop."""
        self._wait_until(asyncio.get_running_loop().time() + self._every.total_seconds())

    def stop(self) -> None:
        """Stop measuring; does nothing if it was not started."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self, due_at: float) -> None:
        lag, every = asyncio.get_running_loop().time() - due_at, self._every.total_seconds()
        self._lags.append(lag)
        self._wait_until(due_at + every * max(1, math.ceil(lag / every)))  # in step with the jobs: they share wake-ups

    def _wait_until(self, due_at: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(due_at, self._measure, due_at)


CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_UNKNOWN: Final = math.nan


class Metrics:
    """All metrics of this process. Methods are for the event loop unless they say otherwise."""

    def __init__(self, instance: str = "") -> None:
        """`instance`: the name of this daemon among several (`server.instance`)."""
        self._registry = CollectorRegistry()
        # Prometheus has a label `instance` of its own
        named = {"server_instance": instance} if instance else {}
        build = Info("companion_build", "The running version.", registry=self._registry)
        build.info({"version": __version__, **named})
        self.http = HttpMetrics(self._registry)
        self._add_messages()
        self._add_sync()
        self._add_health()

    def _add_messages(self) -> None:
        self._deliveries = {
            kind: self._counter(name, f"{noun} that reached a final outcome, by outcome.", "outcome", get_args(Outcome))
            for kind, name, noun in (
                ("mail", "companion_mails", "Mails"),
                ("webhook", "companion_webhook_calls", "Webhook calls"),
                ("rcon", "companion_console_commands", "Console commands"),
                ("team_chat", "companion_team_chat_messages", "Messages to chats of the team"),
            )
        }
        self._chat_actions = Counter(
            "companion_team_chat_actions",
            "What people did in chats of the team, by what came of it: done, or the code of a refusal.",
            ["platform", "outcome"],
            registry=self._registry,
        )
        self._mail_budgets = self._counter(
            "companion_mail_budget_refusals",
            'Requests refused because verification.limits_total ("mail") or limits_total_forgot ("forgot") is used up.',
            "budget",
            get_args(Budget),
        )

    def _add_sync(self) -> None:
        self._sync_seconds = Summary("companion_sync_seconds", "Sync runs and their duration.", registry=self._registry)
        self._sync_succeeded_at = self._gauge(
            "companion_sync_last_success_timestamp_seconds",
            "Time of the last run that could read AuthMe's table; 0: never.",
        )
        self._sync_age = self._gauge(
            "companion_sync_age_seconds", "Time since the sync ran, or since the start; no change of the clock counts."
        )
        self._sync_scanned = self._gauge("companion_sync_scanned", "Players examined by the last run.")
        self._sync_conflicts = self._gauge("companion_sync_conflicts", "Conflicts found by the last run.")
        self._sync_changes = self._counter(
            "companion_sync_changes", "Changed names, by kind of change.", "kind", COUNTS[1:]
        )
        self._memberships_ended = self._counter(
            "companion_membership_ended", "Memberships that ended, by cause.", "cause", get_args(EndCause)
        )
        self._sync_errors = Counter("companion_sync_errors", "Names or runs that failed.", registry=self._registry)

        self._list_changes = self._counter(
            "companion_allowlist_changes",
            "Changed names on the allowlist, by kind of change.",
            "kind",
            LIST_COUNTS,
        )
        self._list_errors = Counter(
            "companion_allowlist_errors", "Runs that could not use the allowlist.", registry=self._registry
        )

    def _add_health(self) -> None:
        """Add the values of `/health/ready`, NaN if unknown, and what waits for an admin."""
        self._database = self._gauge("companion_database_up", "1: the database is reachable and has our tables.")
        self._writable = self._gauge(
            "companion_database_writable",
            "0: the database accepts no changes, as its disk is full or read-only; NaN: it does not answer.",
        )
        self._bridge = self._gauge(
            "companion_bridge_up",
            "1: the last run could read AuthMe's table; NaN: none for minutes, no AuthMe, or our database is away.",
        )
        self._list_state = self._gauge(
            "companion_allowlist_up",
            "1: the last run could use the game's allowlist; 0: it could not, or UUIDs are in doubt; NaN: not kept.",
        )
        self._listed = Gauge(
            "companion_allowlist_users",
            "Users by their state on the game's allowlist, without those who are as they should be.",
            ["state"],
            registry=self._registry,
        )
        self._held_back = self._gauge(
            "companion_sync_braked", "1: the last run held changes back because there were too many at once."
        )
        self._waiting_mails = self._gauge(
            "companion_outbox_waiting", f"Mails queued and not yet delivered; {MAX_COUNT}: so many or more."
        )
        self._oldest_mail = self._gauge(
            "companion_outbox_oldest_seconds", "Age of the oldest waiting mail; 0: none waits."
        )
        self._untold_since = self._gauge(
            "companion_team_chat_untold_since_seconds",
            "Time at which the oldest message for the team's chats that is not sent yet was enqueued; 0: none waits.",
        )
        self._restart_needed = self._gauge(
            "companion_restart_needed", "1: a config file has changed in a way that needs a restart of the companion."
        )
        self._backup_time = self._gauge(
            "companion_backup_last_timestamp_seconds",
            "Time of the newest backup known here; 0: there is none, NaN: nightly ones are not used, or it is unknown.",
        )
        self._pending_users = self._gauge("companion_users_pending", "Users who wait for a review.")
        self._ending = self._gauge("companion_memberships_ending", "Memberships that end within a week.")
        self._disputed_players = self._gauge(
            "companion_players_disputed",
            "Players whose e-mail address differs from their user's until an admin decides.",
        )

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self._registry)

    def _counter(self, name: str, about: str, label: str, values: Iterable[str] = ()) -> Counter:
        return make_counter(self._registry, name, about, label, values)

    def register(self, *collectors: Collector) -> None:
        """Add collectors to every scrape."""
        for collector in collectors:
            self._registry.register(collector)

    def count_delivery(self, message: OutboxEntry, outcome: Outcome) -> None:
        """Count a message of the outbox with a final outcome. Safe from any thread."""
        self._deliveries[message.kind].labels(outcome).inc()

    def count_chat_action(self, platform: str, outcome: str) -> None:
        """Count what a person did in a chat of the team: "done", or the code of the refusal."""
        self._chat_actions.labels(platform, outcome).inc()

    def count_used_up_budget(self, budget: Budget) -> None:
        """Count a mail that was refused because the total was used up. Safe from any thread."""
        self._mail_budgets.labels(budget).inc()

    def count_sync(self, report: SyncReport) -> None:
        """Count a finished sync run."""
        seconds = report.duration_ms / 1000
        self._sync_seconds.observe(seconds)
        if report.unavailable is None:
            self._sync_succeeded_at.set(report.started_at.timestamp() + seconds)
        self._sync_scanned.set(report.scanned)
        self._sync_conflicts.set(len(report.conflicts))
        for kind in COUNTS[1:]:
            self._sync_changes.labels(kind).inc(getattr(report, kind))
        self._sync_errors.inc(len(report.errors))
        for cause, count in report.memberships_ended.items():
            self._memberships_ended.labels(cause).inc(count)
        if report.listed is not None:
            self.count_list(report.listed)

    def count_list(self, report: ListReport) -> None:
        """Count a finished run of the allowlist."""
        for kind in LIST_COUNTS:
            self._list_changes.labels(kind).inc(report.counts[kind])
        self._list_errors.inc(report.unavailable is not None)

    def text(self, status: HealthStatus, waiting: WaitingCounts | None) -> bytes:
        """Return all metrics in Prometheus' text format (`CONTENT_TYPE`); `waiting` is None if unknown."""
        self._database.set(status.is_reachable)
        self._writable.set(_UNKNOWN if status.is_writable is None else status.is_writable)
        self._bridge.set({BridgeState.UP: 1, BridgeState.AWAY: 0}.get(status.bridge, _UNKNOWN))
        self._list_state.set({BridgeState.UP: 1, BridgeState.AWAY: 0}.get(status.allowlist, _UNKNOWN))
        for state in UNSETTLED:
            self._listed.labels(state).set(waiting.listed[state] if waiting else _UNKNOWN)
        self._sync_age.set(status.seconds_since_sync)
        self._held_back.set(status.has_held_back_changes)
        self._restart_needed.set(bool(status.restart_needed))
        mails, age = status.waiting_mails, status.oldest_mail_age
        self._waiting_mails.set(_UNKNOWN if mails is None else mails)
        self._oldest_mail.set(_UNKNOWN if mails is None else age.total_seconds() if age else 0)
        untold = waiting.untold_since if waiting else None
        self._untold_since.set(_UNKNOWN if waiting is None else untold.timestamp() if untold else 0)
        self._backup_time.set(waiting.backup_time if waiting else _UNKNOWN)
        self._pending_users.set(waiting.pending_users if waiting else _UNKNOWN)
        self._ending.set(waiting.ending if waiting else _UNKNOWN)
        self._disputed_players.set(waiting.disputed_players if waiting else _UNKNOWN)
        return generate_latest(self._registry)


@dataclass(frozen=True, eq=False)
class QueueCollector(Collector):
    """Collector for work waiting for a thread, and for the lag of the event loop."""

    worker: Worker
    list_worker: Worker
    hash_pool: HashPool
    loop_lag: LoopLag

    def collect(self) -> Iterator[Metric]:
        pool = self.hash_pool
        yield GaugeMetricFamily("companion_hash_running", "Passwords being hashed now.", pool.running)
        yield GaugeMetricFamily("companion_hash_waiting", "Passwords waiting to be hashed.", pool.waiting)
        yield CounterMetricFamily(
            "companion_log_lines_dropped", "Lines of the log that nobody read in time.", count_dropped_lines()
        )
        yield CounterMetricFamily(
            "companion_hash_refused", "Passwords refused because too many were waiting.", pool.refused
        )
        yield GaugeMetricFamily(
            "companion_worker_waiting", "Requests waiting for a database thread.", self.worker.waiting
        )
        yield GaugeMetricFamily(
            "companion_list_waiting", "Searches and lists waiting for their thread.", self.list_worker.waiting
        )
        yield GaugeMetricFamily(
            "companion_loop_lag_seconds",
            "Longest lag of the event loop in the last four measurements, 15 seconds apart.",
            self.loop_lag.seconds,
        )


class ProcessCollector(Collector):
    """Collector for memory, CPU and open files, under the names that all Prometheus clients use.

    prometheus_client's own collector yields nothing where /proc shows processes only, as under our systemd unit
    (`ProcSubset=pid`).
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
        except OSError:  # not Linux: these metrics are not available
            return
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory size in bytes.", pages * self._page_bytes
        )
        yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", open_files)


@PROBES.add("GET", "/metrics", Access.PROBE)
async def show_metrics(call: Call, metrics: Metrics, health: Health) -> None:
    """Show the metrics to scrapers on this machine and those with the scrape token."""
    status = await health.status()
    waiting = await health.waiting_work() if status.is_reachable else None
    text = metrics.text(status, waiting)
    call.set_header("Content-Type", CONTENT_TYPE)
    call.finish(text)
