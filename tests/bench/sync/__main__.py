"""`make bench-sync`: the sync with a million players, compared with plain SQL; writes docs/benchmarks.md."""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench import report
from tests.bench.figures import RUNS, Row
from tests.bench.sync.mariadb import measure_alone, measure_under_load
from tests.bench.sync.sqlite import measure_sqlite
from tests.support.peers.mariadb import MariaDBServer

PARTS = ("mariadb", "load", "sqlite")
PLAYERS = 1_000_000
SQLITE_PLAYERS = 100_000
# What a host with a million players has; the default of 128 MiB would measure the disk.
SERVER_OPTIONS = ("--innodb-buffer-pool-size=2G", "--loose-innodb-log-file-size=512M")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sync", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"measure and print only these of: {', '.join(PARTS)} (load: requests during the first adoption)",
    )
    parser.add_argument(
        "--players", type=int, default=PLAYERS, help=f"{PLAYERS:,} by default, on SQLite at most 100,000"
    )
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each measurement; {RUNS} by default")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}")
    text = report.sync_text(options.players, measure(options.parts or PARTS, options.players, options.runs))
    print(text)
    if not options.parts and options.players >= PLAYERS:
        report.write(text)


def measure(parts: "tuple[str, ...] | list[str]", players: int, runs: int) -> list[Row]:
    """Return the rows of these parts."""
    rows: list[Row] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if {"mariadb", "load"} & {*parts}:
            server = MariaDBServer(directory / "mariadb", options=SERVER_OPTIONS)
            server.start()
            stack.callback(server.stop)
            if "mariadb" in parts:
                rows += measure_alone(directory / "alone", server, players, runs)
            if "load" in parts:
                rows += measure_under_load(directory / "watched", server, players)
        if "sqlite" in parts:
            rows += measure_sqlite(directory / "sqlite", min(players, SQLITE_PLAYERS), runs)
    return rows


if __name__ == "__main__":
    main()
