"""`make bench`: measures on this machine, side by side in one run, and writes docs/benchmarks.md."""

import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tornado

from tests.bench import captchas
from tests.bench.report import FILE, sections
from tests.support.peers.mariadb import MariaDBServer
from tests.support.ports import free_port
from tests.support.quick_start import REPOSITORY
from tests.support.stack import Stack

PLAYERS = 100_000
RUNS = 5
SECONDS = 2.0
CONFIG: dict[str, dict[str, Any]] = {"http": {"status_limit": []}, "log": {"level": "warning"}, **captchas.CONFIG}


def main() -> None:
    with ExitStack() as exit_stack:
        directory = Path(exit_stack.enter_context(tempfile.TemporaryDirectory()))
        server = MariaDBServer(directory / "mariadb")
        server.start()
        exit_stack.callback(server.stop)
        rows = measure(exit_stack, directory, server)
    report = write_report(rows)
    print(report)
    others = sections()[1:]
    FILE.write_text("\n".join([report, *others]), encoding="utf-8")


def measure(exit_stack: ExitStack, directory: Path, server: MariaDBServer) -> list[tuple[str, str]]:
    """Return the rows of the table: what was measured, and the result."""
    stack = exit_stack.enter_context(Stack("mariadb", directory / "stack", server, config=CONFIG, is_quick=False))
    stack.daemon.stop()
    names = add_players(stack)
    adoption = sync_from_the_shell(stack)
    assert adoption["adopted"] == PLAYERS, adoption
    idle_tick = sync_from_the_shell(stack)["durationMs"] / 1000
    ready = statistics.median(time_to_ready(stack) for _run in range(RUNS))
    stack.daemon.start()
    memory = resident_mib(stack.daemon.pid)

    statuses = write_paths(directory / "status.txt", [f"/api/user/status?username={name}" for name in names])
    configs = write_paths(directory / "config.txt", ["/api/config"])
    with bare_handler() as bare_port:
        status, config, bare = [], [], []
        for _run in range(RUNS):
            bare.append(load(bare_port, statuses))
            status.append(load(stack.daemon.port, statuses))
            config.append(load(stack.daemon.port, configs))
    loaded = resident_mib(stack.daemon.pid)
    made = captchas.measure_captchas(stack.daemon.port, RUNS)
    limit = statistics.median(bare)
    return [
        ("bare Tornado handler, same JSON, no database (the upper limit)", f"{limit:,.0f} requests/s"),
        ("`GET /api/config`", share(statistics.median(config), limit)),
        (f"`GET /api/user/status`, MariaDB, {PLAYERS:,} users, random names", share(statistics.median(status), limit)),
        (f"time from start to ready, {PLAYERS:,} users", f"{ready:.2f} s"),
        (f"memory (RSS) after the start, {PLAYERS:,} users", f"{memory:.0f} MiB"),
        (f"memory (RSS) after {RUNS} runs of load", f"{loaded:.0f} MiB"),
        (f"{captchas.CAPTCHAS:,} captchas over HTTP, {captchas.CONNECTIONS} connections", f"{made.per_second:,.0f}/s"),
        ("`GET /health/alive` on another connection under that load, 99th percentile", f"{made.p99:.1f} ms"),
        (f"first adoption of {PLAYERS:,} players", f"{adoption['durationMs'] / 1000:.1f} s"),
        (f"sync over {PLAYERS:,} players without changes", f"{idle_tick:.1f} s"),
    ]


def add_players(stack: Stack) -> list[str]:
    """Insert players who registered in the game long ago, in an order that no index has; return their names."""
    names = [f"Player_{number}" for number in range(PLAYERS)]
    random.Random(1).shuffle(names)
    for start in range(0, PLAYERS, 1000):
        chunk = names[start : start + 1000]
        values = ", ".join(f"('{name.lower()}', '{name}', '$SHA$x$y', 1500000000000)" for name in chunk)
        stack.table.database.execute(f"INSERT INTO authme (username, realname, password, regdate) VALUES {values}")
    return names


def sync_from_the_shell(stack: Stack) -> dict[str, Any]:
    """Return the report of one `companion sync`."""
    command = [sys.executable, "companion.py", "sync", "--config", str(stack.daemon.config_file)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def time_to_ready(stack: Stack) -> float:
    started = time.monotonic()
    stack.daemon.start()
    elapsed = time.monotonic() - started
    stack.daemon.stop()
    return elapsed


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("a process without memory")


def write_paths(file: Path, paths: list[str]) -> Path:
    file.write_text("\n".join(paths), encoding="utf-8")
    return file


def load(port: int, paths: Path) -> float:
    command = [sys.executable, "-m", "tests.bench.load", str(port), str(paths), str(SECONDS)]
    return float(subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout)


@contextmanager
def bare_handler() -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.bare", str(port)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield port
        finally:
            process.terminate()


def share(rate: float, limit: float) -> str:
    return f"{rate:,.0f} requests/s, {rate / limit:.2f} of the upper limit"


def write_report(rows: list[tuple[str, str]]) -> str:
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {date.today().isoformat()}: Python {platform.python_version()}, "  # noqa: DTZ011
        f"Tornado {tornado.version}, peewee {version('peewee')}, {platform.machine()}, "
        f"medians of {RUNS} runs. The load comes from another process on the same machine, so only the ratios within "
        "one run apply to other machines.",
        "",
        "| measurement | result |",
        "|---|---|",
        *(f"| {measurement} | {result} |" for measurement, result in rows),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
