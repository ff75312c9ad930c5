"""Status look-ups: the bare handler, the peer and the companion, alternately in one run."""

import json
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from tests.bench.figures import RUNS, Row, cpu_time
from tests.bench.load import SECONDS, Load, Paths, load
from tests.bench.processes import Server, bare_handler, companion, peer
from tests.support.daemon import HOST
from tests.support.stack import Stack


def measure_status(stack: Stack, directory: Path, names: list[str], runs: int = RUNS) -> list[Row]:
    """Measure with random names of users; also `/api/config`, which needs no database."""
    statuses = Paths(directory, "status", [f"/api/user/status?username={name}" for name in names])
    configs = Paths(directory, "config", ["/api/config"])
    with bare_handler() as bare, peer(stack, stack.smtp.port) as other:
        ours = companion(stack)
        for server in (other, ours):
            require_fresh(stack, server.port, names[0])
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(load, ours.port, statuses, SECONDS)
            require_fresh(stack, ours.port, names[0])  # also while look-ups come at the same time
            loading.result()
        targets = {
            "bare": (bare, statuses),
            "peer": (other, statuses),
            "ours": (ours, statuses),
            "config": (ours, configs),
        }
        runs_of: dict[str, list[StatusRun]] = {name: [] for name in targets}
        for _run in range(runs):
            for name, (server, paths) in targets.items():
                runs_of[name].append(measure_once(server, paths))
    return status_rows(len(names), *runs_of.values())


@dataclass(frozen=True)
class StatusRun:
    """A load, and the CPU seconds that the server took for a request."""

    load: Load
    cpu: float


def measure_once(server: Server, paths: Paths) -> StatusRun:
    before = cpu_time(server.pid)
    done = load(server.port, paths, SECONDS)
    return StatusRun(done, (cpu_time(server.pid) - before).total / done.count)


def status_rows(
    users: int, bare: list[StatusRun], other: list[StatusRun], ours: list[StatusRun], config: list[StatusRun]
) -> list[Row]:
    def rate(runs: list[StatusRun]) -> float:
        return statistics.median(run.load.rate for run in runs)

    def text(runs: list[StatusRun]) -> str:
        cpu = statistics.median(run.cpu for run in runs)
        return f"{rate(runs):,.0f} requests/s, {cpu * 1e6:,.0f} us of CPU each"

    p99 = statistics.median(run.load.p99 for run in ours)
    shares = f"{rate(ours) / rate(other):.2f} x the peer, {rate(ours) / rate(bare):.2f} x the limit, p99 {p99:.1f} ms"
    what = f"`GET /api/user/status`, MariaDB, {users:,} users, random names"
    bar, goal = ">= 1.6 x the peer, >= 0.55 x the limit", ">= 2 x the peer, >= 0.8 x the limit"
    return [
        ("bare Tornado handler, same JSON, no database (the limit)", "", "", text(bare)),
        (f"{what}: the peer", "", "", text(other)),
        (f"{what}: the companion", bar, goal, f"{text(ours)}, {shares}"),
        (
            "`GET /api/config`",
            ">= 0.75 x the limit",
            "",
            f"{text(config)}, {rate(config) / rate(bare):.2f} x the limit",
        ),
    ]


def require_fresh(stack: Stack, port: int, name: str) -> None:
    """Require that a status changed with SQL is seen by the next request."""
    connection = HTTPConnection(HOST, port, timeout=10)
    change = "UPDATE regsvc_user SET status = ?, applied_status = ? WHERE username_key = ?"
    for status in ("rejected", "approved", "rejected", "approved"):
        stack.table.database.execute(change, (status, status, name.lower()))
        connection.request("GET", f"/api/user/status?username={name}")
        seen = json.loads(connection.getresponse().read())["data"]["status"]
        assert seen == status, (seen, status)
    connection.close()
