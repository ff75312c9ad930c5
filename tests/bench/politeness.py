"""How little a game server notices: the idle daemon, and the work of its neighbours while clients log in."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.figures import RUNS, Row, cpu_time, wake_ups
from tests.bench.login_load import CLIENTS, logging_in
from tests.bench.logins import login_stack
from tests.support.peers.mariadb import MariaDBServer
from tests.support.quick_start import REPOSITORY
from tests.support.stack import Stack
from tests.support.unit_file import UnitFile

IDLE_SECONDS = 60.0
SECONDS = 4.0
NICE = int(UnitFile.read(REPOSITORY / "systemd" / "companion.service").value("Nice"))
CORES = os.cpu_count() or 1


def measure_politeness(directory: Path, server: MariaDBServer, idle_seconds: float, runs: int = RUNS) -> list[Row]:
    with login_stack(directory, server, "BCRYPT", sync={"every": "30 seconds"}) as stack:
        cpu, waits = measure_idle(stack, idle_seconds)
        set_nice(stack.daemon.pid)
        kept = statistics.median(share_kept(stack) for _run in range(runs))
    return [
        ("CPU of the idle daemon", "<= 0.3 %", "<= 0.1 %", f"{cpu * 100:.2f} %"),
        ("its wake-ups", "<= 2.5/s", "<= 2/s", f"{waits:.1f}/s"),
        (
            f"work of {CORES} busy processes while {CLIENTS} clients log in (daemon at the unit's nice {NICE}; its "
            "CPUWeight needs systemd and is not applied)",
            ">= 0.9 of alone",
            ">= 0.95",
            f"{kept:.2f}",
        ),
    ]


def measure_idle(stack: Stack, idle_seconds: float) -> tuple[float, float]:
    """Return the share of a core and the wake-ups per second of a daemon that gets no requests."""
    time.sleep(3.0)  # what the start has left to do
    pid = stack.daemon.pid
    cpu, waits, began = cpu_time(pid), wake_ups(pid), time.monotonic()
    time.sleep(idle_seconds)
    elapsed = time.monotonic() - began
    return (cpu_time(pid) - cpu).total / elapsed, (wake_ups(pid) - waits) / elapsed


def set_nice(pid: int) -> None:
    """Give every thread of the daemon the priority that the unit gives it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(task.name), NICE)


def share_kept(stack: Stack) -> float:
    """Return the neighbours' work during a login storm as share of their work alone."""
    before = neighbours()
    with logging_in(stack.daemon.port, SECONDS + 1, prefix=("nice", "-n", "19")):  # it stands for other machines
        meanwhile = neighbours()
    return meanwhile / statistics.mean((before, neighbours()))


def neighbours() -> float:
    """Return the work that one busy process per core gets done, together."""
    command = [sys.executable, "-m", "tests.bench.neighbour", str(SECONDS)]
    running = [subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) for _core in range(CORES)]
    return sum(float(process.communicate()[0]) for process in running)
