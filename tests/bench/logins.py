"""Logins, compared with the bare hash, and `/api/config` meanwhile."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.figures import RUNS, CpuTime, Row, cpu_time
from tests.bench.general_log import statements_of
from tests.bench.hashing import hasher_of
from tests.bench.load import Load, Paths, load
from tests.bench.login_load import CLIENTS, PASSWORD, USERS, logging_in
from tests.bench.players import insert_players
from tests.support.peers.mariadb import MariaDBServer
from tests.support.quick_start import REPOSITORY
from tests.support.stack import Stack

SECONDS = 3.0
BCRYPT_COST = 10
ALGORITHMS = ("BCRYPT", "SHA256")
THREADS = max(1, (os.cpu_count() or 2) - 1)
"""Threads that hash in the daemon, as `auth.max_concurrent_hashes` has it by default."""


@dataclass(frozen=True)
class LoginRun:
    """Figures of one algorithm, in one run."""

    bare: float  # hashes per second
    bare_cpu: float  # seconds per hash
    rate: float  # logins per second
    cpu: CpuTime  # of the daemon, per login


def measure_logins(directory: Path, server: MariaDBServer, runs: int = RUNS) -> list[Row]:
    """Measure both algorithms, each on a stack of its own."""
    rows: list[Row] = []
    for algorithm in ALGORITHMS:
        with login_stack(directory / algorithm, server, algorithm) as stack:
            found = [measure_once(stack, algorithm) for _run in range(runs)]
            rows += login_rows(algorithm, found, count_statements(stack, server))
            if algorithm == "BCRYPT":
                rows += measure_config(stack, directory, runs)
    return rows


@contextmanager
def login_stack(directory: Path, server: MariaDBServer, algorithm: str, **sections: dict[str, Any]) -> Iterator[Stack]:
    """Start a stack with users whose passwords have this algorithm."""
    authme = {"settings.security.passwordHash": algorithm, "ExternalBoardOptions.bCryptLog2Round": BCRYPT_COST}
    config: dict[str, dict[str, Any]] = {"log": {"level": "info"}, **sections}
    with Stack("mariadb", directory, server, config=config, authme=authme, is_quick=False) as stack:
        insert_players(stack, USERS, hasher_of(algorithm, BCRYPT_COST).configured.hash(PASSWORD, "player").hash)
        stack.sync()
        yield stack


def measure_once(stack: Stack, algorithm: str) -> LoginRun:
    command = [sys.executable, "-m", "tests.bench.hashing", algorithm, str(BCRYPT_COST), str(THREADS), str(SECONDS)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    bare, bare_cpu = map(float, done.stdout.split())
    before = cpu_time(stack.daemon.pid)
    with logging_in(stack.daemon.port, SECONDS) as storm:
        pass
    return LoginRun(bare, bare_cpu, storm.count / SECONDS, (cpu_time(stack.daemon.pid) - before).per(storm.count))


def count_statements(stack: Stack, server: MariaDBServer) -> float:
    """Return the statements of one login from a client that logged in before."""
    count = 4
    body = {"username": "Player_0000000", "password": PASSWORD}
    stack.post("/api/login", body)
    seen = statements_of(server, lambda: [stack.post("/api/login", body) for _login in range(count)])
    return sum(statement.is_counted for statement in seen) / count


def login_rows(algorithm: str, found: list[LoginRun], statements: float) -> list[Row]:
    bare = statistics.median(run.bare for run in found)
    bare_cpu = statistics.median(run.bare_cpu for run in found)
    rate = statistics.median(run.rate for run in found)
    share = statistics.median(run.rate / run.bare for run in found)
    loop = statistics.median(run.cpu.loop for run in found)
    threads = statistics.median(run.cpu.threads for run in found)
    name = f"BCRYPT, cost {BCRYPT_COST}" if algorithm == "BCRYPT" else f"{algorithm}, AuthMe's default"
    bar, goal = (">= 0.9 x that", "0.97 x") if algorithm == "BCRYPT" else ("", "")
    result = f"{rate:.1f}/s, {share:.2f} x" if algorithm == "BCRYPT" else f"{rate:.1f}/s"
    spent = f"event loop {ms(loop)}, threads {ms(threads)} (the bare hash alone: {ms(bare_cpu)})"
    return [
        (f"bare hash ({name}), {THREADS} thread(s)", "", "", f"{bare:,.1f}/s"),
        (f"logins ({name}), {CLIENTS} clients", bar, goal, result),
        ("CPU of the daemon per login", "", "", f"{ms(loop + threads)}: {spent}; {statements:.1f} statements"),
    ]


def measure_config(stack: Stack, directory: Path, runs: int) -> list[Row]:
    """Measure `/api/config` alone and while clients log in."""
    paths = Paths(directory, "config-at-logins", ["/api/config"])
    alone: list[Load] = []
    meanwhile: list[Load] = []
    for _run in range(runs):
        alone.append(load(stack.daemon.port, paths))
        with logging_in(stack.daemon.port, SECONDS):
            meanwhile.append(load(stack.daemon.port, paths))
    shares = [during.rate / before.rate for during, before in zip(meanwhile, alone, strict=True)]
    share, p99 = statistics.median(shares), statistics.median(found.p99 for found in meanwhile)
    what = f"`GET /api/config` while {CLIENTS} clients log in (BCRYPT)"
    result = f"{share:.2f} of its idle throughput, p99 {p99:.1f} ms"
    return [(what, ">= 0.8, p99 <= 20 ms", ">= 0.9, <= 10 ms", result)]


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
