"""Whole registrations (send, code by mail, register): the companion and the peer, alternately, on the same tables."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.figures import RUNS, CpuTime, Row, cpu_time
from tests.bench.general_log import statements_of
from tests.bench.processes import Server, companion, peer
from tests.support.peers.mariadb import MariaDBServer
from tests.support.ports import free_port
from tests.support.quick_start import REPOSITORY
from tests.support.stack import Stack
from tests.support.watching import ask_until

CLIENTS = 8
REGISTRATIONS = 80  # a run
PLENTY = ["100000 per minute", "100000 per day"]
LIMITS = ("limits_per_address", "limits_per_client", "limits_total", "limits_total_forgot")
"""As many limits as by default, so that as many are counted."""
EFFECTS = {"regsvc_user": 1, "regsvc_sync_record": 1, "regsvc_verification": 1, "regsvc_outbox": 2, "regsvc_audit": 1}
"""Rows that each table gets of one registration; the mails are the code and the receipt."""


@dataclass(frozen=True)
class RegistrationRun:
    """Registrations per second, and the server's CPU time of each."""

    rate: float
    cpu: CpuTime


class Registrations:
    """Runs of registrations against one side, with new people each time."""

    def __init__(self, stack: Stack, smtp_port: int) -> None:
        self._stack = stack
        self._smtp_port = smtp_port
        self._people = 0

    def run(self, side: Server, count: int = REGISTRATIONS, clients: int = CLIENTS) -> RegistrationRun:
        """Register so many people; require that the tables have what belongs to them in the end."""
        before, rows = cpu_time(side.pid), self._count_rows()
        command = [sys.executable, "-m", "tests.bench.registrants", *map(str, (side.port, self._smtp_port))]
        command += [str(self._people), str(count), str(clients)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        self._people += count
        ask_until(self._count_unfinished, lambda unfinished: unfinished == 0)
        added = {table: after - rows[table] for table, after in self._count_rows().items()}
        assert added == {table: rows * count for table, rows in EFFECTS.items()}, (side.name, added)
        return RegistrationRun(count / json.loads(done.stdout), (cpu_time(side.pid) - before).per(count))

    def _count_rows(self) -> dict[str, int]:
        return {table: self._count(table) for table in EFFECTS}

    def _count_unfinished(self) -> int:
        return self._count("regsvc_outbox", "outcome IS NULL") + self._count(
            "regsvc_verification", "redeemed_at IS NULL OR handed_over_at IS NULL OR tries <> 0"
        )

    def _count(self, table: str, condition: str = "TRUE") -> int:
        [row] = self._stack.table.database.query(f"SELECT COUNT(*) AS n FROM {table} WHERE {condition}")
        return int(row["n"])


def measure_registrations(directory: Path, server: MariaDBServer, runs: int = RUNS) -> list[Row]:
    """`server` is a durable one."""
    smtp_port = free_port()  # of the process that registers
    config: dict[str, dict[str, Any]] = {
        "log": {"level": "warning"},
        "verification": dict.fromkeys(LIMITS, PLENTY),
        "mail": {"port": smtp_port},
    }
    with (
        Stack("mariadb", directory, server, config=config, is_quick=False) as stack,
        peer(stack, smtp_port) as other,
    ):
        stack.sync()
        sides = [companion(stack), other]
        registrations = Registrations(stack, smtp_port)
        found: dict[str, list[RegistrationRun]] = {}
        for side in sides:
            registrations.run(side, count=CLIENTS * 2)  # the first requests import and connect
        for _run in range(runs):
            for side in sides:
                found.setdefault(side.name, []).append(registrations.run(side))
        statements = {side.name: count_statements(registrations, server, side) for side in sides}
    return registration_rows(found["companion"], found["peer"], statements)


def count_statements(registrations: Registrations, server: MariaDBServer, side: Server) -> tuple[float, float]:
    """Return the statements and the commits of one registration with the delivery of its mails."""
    count = 4
    seen = statements_of(server, lambda: registrations.run(side, count=count, clients=1))
    # those of the checks in `Registrations` are not of this side
    ours = [statement for statement in seen if not statement.sql.startswith("SELECT COUNT(*) AS n")]
    commits = sum(statement.sql.upper().startswith("COMMIT") for statement in ours)
    return sum(statement.is_counted for statement in ours) / count, commits / count


def registration_rows(
    ours: list[RegistrationRun], theirs: list[RegistrationRun], statements: dict[str, tuple[float, float]]
) -> list[Row]:
    def of(runs: list[RegistrationRun], figure: Callable[[RegistrationRun], float]) -> float:
        return statistics.median(map(figure, runs))

    our_cpu, their_cpu = of(ours, lambda run: run.cpu.total), of(theirs, lambda run: run.cpu.total)
    loop, threads = of(ours, lambda run: run.cpu.loop), of(ours, lambda run: run.cpu.threads)
    split = f"event loop {loop * 1000:.1f} ms, threads {threads * 1000:.1f} ms"
    text = "{:.1f} statements and {:.1f} commits"
    return [
        (f"whole registrations, {CLIENTS} clients, durable MariaDB, SMTP: the peer", "", "", rate(theirs, their_cpu)),
        ("whole registrations: the companion", "", "", rate(ours, our_cpu)),
        ("its CPU per registration", "<= 1.5 x the peer", "<= 1.2 x", f"{our_cpu / their_cpu:.2f} x ({split})"),
        (
            "SQL of one registration with the delivery of its mails",
            "",
            "",
            f"{text.format(*statements['companion'])}; the peer {text.format(*statements['peer'])}",
        ),
    ]


def rate(runs: list[RegistrationRun], cpu: float) -> str:
    return f"{statistics.median(run.rate for run in runs):.1f}/s, {cpu * 1000:.1f} ms of CPU each"
