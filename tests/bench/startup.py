"""Start, memory, a command's help, and the first sync with many players."""

import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.bench.figures import RUNS, Row, resident_mib
from tests.bench.players import insert_players
from tests.bench.sync.ticks import sync
from tests.support.quick_start import PROGRAM
from tests.support.stack import Stack


@dataclass(frozen=True)
class Started:
    """A stack whose daemon was restarted with all players adopted, and what was measured until then."""

    names: list[str]
    rows: list[Row]
    memory: float  # MiB after the start


def measure_start(stack: Stack, players: int, runs: int = RUNS) -> Started:
    """Insert and adopt the players; then restart the daemon several times."""
    sync(stack)  # after the daemon's first run, which would find half of them
    names = insert_players(stack, players)
    adoption = sync(stack)
    assert adoption["adopted"] == players, adoption
    sync(stack)  # looks at what the first one wrote
    idle = statistics.median(sync(stack)["durationMs"] for _run in range(runs)) / 1000
    ready = statistics.median(_time_to_ready(stack) for _run in range(runs))
    time.sleep(1.0)  # what is loaded right after the ready line
    memory = resident_mib(stack.daemon.pid)
    help_cpu = statistics.median(_cpu_of_help() for _run in range(runs))
    rows = [
        (f"time from start to ready, {players:,} users", "<= 1.0 s", "<= 0.8 s", f"{ready:.2f} s"),
        ("CPU time of `companion users list --help`", "<= 0.35 s", "", f"{help_cpu:.2f} s"),
        (f"memory (RSS) after the start, {players:,} users", "<= 64 MiB", "<= 60 MiB", f"{memory:.0f} MiB"),
        (f"first adoption of {players:,} players", "", "", f"{adoption['durationMs'] / 1000:.1f} s"),
        (f"sync over {players:,} players without changes", "", "", f"{idle:.1f} s"),
    ]
    return Started(names, rows, memory)


def _cpu_of_help() -> float:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    subprocess.run([sys.executable, str(PROGRAM), "users", "list", "--help"], stdout=subprocess.DEVNULL, check=True)
    return used() - before


def _time_to_ready(stack: Stack) -> float:
    stack.daemon.stop()
    began = time.monotonic()
    stack.daemon.start()
    return time.monotonic() - began
