"""`make bench`: measures on this machine, side by side in one run, and writes docs/benchmarks.md."""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench import captchas, report
from tests.bench.allowlist import measure_allowlist
from tests.bench.figures import RUNS, Row, resident_mib
from tests.bench.lists import USERS, measure_lists
from tests.bench.logins import measure_logins
from tests.bench.pages import measure_pages
from tests.bench.politeness import IDLE_SECONDS, measure_politeness
from tests.bench.registrations import measure_registrations
from tests.bench.startup import measure_start
from tests.bench.status import measure_status
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack

PARTS = ("status", "logins", "registrations", "politeness", "pages", "lists", "allowlist")
PLAYERS = 100_000
SERVER_OPTIONS = ("--innodb-buffer-pool-size=2G",)  # as docs/reference.md has it for a million users
CONFIG: dict[str, dict[str, Any]] = {"http": {"status_limit": []}, "log": {"level": "info"}, **captchas.CONFIG}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        choices=[[], *PARTS],
        help=f"measure and print only these of: {', '.join(PARTS)}",
    )
    parser.add_argument("--players", type=int, default=PLAYERS, help=f"for status; {PLAYERS:,} by default")
    parser.add_argument("--users", type=int, default=USERS, help=f"for lists; {USERS:,} by default")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each measurement; {RUNS} by default")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS, help="for politeness")
    options = parser.parse_args()
    rows = measure(options)
    text = report.daemon_text(rows, options.runs)
    print(text)
    if not options.parts and options.players >= PLAYERS:
        report.write(text)


def measure(options: argparse.Namespace) -> list[Row]:
    """Return the rows of the table."""
    wanted, rows = options.parts or PARTS, []
    with ExitStack() as exit_stack:
        directory = Path(exit_stack.enter_context(tempfile.TemporaryDirectory()))
        server = MariaDBServer(directory / "mariadb", is_durable=True, options=SERVER_OPTIONS)
        server.start()
        exit_stack.callback(server.stop)
        if "status" in wanted:
            rows += measure_requests(directory, server, options.players, options.runs)
        if "logins" in wanted:
            rows += measure_logins(directory / "logins", server, options.runs)
        if "registrations" in wanted:
            rows += measure_registrations(directory / "registrations", server, options.runs)
        if "politeness" in wanted:
            rows += measure_politeness(directory / "politeness", server, options.idle_seconds, options.runs)
        if "pages" in wanted:
            rows += measure_pages(directory / "pages", options.runs)
        if "lists" in wanted:
            rows += measure_lists(directory / "lists", server, options.users, options.runs)
        if "allowlist" in wanted:
            rows += measure_allowlist(directory / "allowlist", server, options.runs)
    return rows


def measure_requests(directory: Path, server: MariaDBServer, players: int, runs: int) -> list[Row]:
    """Measure the start, status look-ups and captchas on one stack."""
    with Stack("mariadb", directory / "stack", server, config=CONFIG, is_quick=False) as stack:
        started = measure_start(stack, players, runs)
        rows = measure_status(stack, directory, started.names, runs)
        loaded = resident_mib(stack.daemon.pid)
        made = captchas.measure_captchas(stack.daemon.port, runs)
    return [
        *rows,
        *started.rows,
        (f"memory (RSS) after {runs} runs of load", "", "", f"{loaded:.0f} MiB"),
        (
            f"{captchas.CAPTCHAS:,} captchas over HTTP, {captchas.CONNECTIONS} connections",
            ">= 150/s",
            ">= 400/s",
            f"{made.per_second:,.0f}/s",
        ),
        (
            "`GET /health/alive` on another connection under that load, 99th percentile",
            "<= 20 ms",
            "<= 10 ms",
            f"{made.p99:.1f} ms",
        ),
    ]


if __name__ == "__main__":
    main()
