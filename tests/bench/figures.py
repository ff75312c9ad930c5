"""Figures of processes, from /proc, and medians."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
RUNS = 5

Row = tuple[str, str, str, str]
"""One line of a table: measurement, bar, goal, and result."""


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds of a process: its main thread, which runs the event loop, and all others."""

    loop: float
    threads: float

    @property
    def total(self) -> float:
        return self.loop + self.threads

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(self.loop - earlier.loop, self.threads - earlier.threads)

    def per(self, count: int) -> "CpuTime":
        return CpuTime(self.loop / count, self.threads / count)


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time so far; threads that have ended are included."""
    loop, total = _cpu(Path(f"/proc/{pid}/task/{pid}/stat")), _cpu(Path(f"/proc/{pid}/stat"))
    return CpuTime(loop, total - loop)


def _cpu(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()  # the name before may contain spaces
    return (int(fields[11]) + int(fields[12])) / TICKS


def wake_ups(pid: int) -> int:
    """Return how often the threads of a process have waited for something so far."""
    statuses = (task / "status" for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int(_field(status, "voluntary_ctxt_switches")) for status in statuses)


def resident_mib(pid: int) -> float:
    return int(_field(Path(f"/proc/{pid}/status"), "VmRSS").split()[0]) / 1024


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    raise AssertionError(f"{file} has no {name}")


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(measure: Callable[[], float], runs: int = RUNS) -> float:
    return statistics.median(measure() for _run in range(runs))
