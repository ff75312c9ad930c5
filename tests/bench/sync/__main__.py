"""`make bench-sync`: the sync with a million players, compared with plain SQL; writes docs/benchmarks.md."""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench import report
from tests.bench.figures import RUNS, Row
from tests.bench.sync.growth import SIZES, measure_growth
from tests.bench.sync.mariadb import measure_alone, measure_under_load
from tests.bench.sync.sqlite import measure_sqlite
from tests.support.peers.mariadb import MariaDBServer

PARTS = ("mariadb", "load", "sqlite", "growth")
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
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="players in each column of growth, ascending"
    )
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}")
    for text in measure(options.parts or PARTS, options):
        print(text)
        if not options.parts and options.players >= PLAYERS:
            report.write(text)


def measure(parts: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Return the sections of these parts."""
    rows, texts = list[Row](), list[str]()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = MariaDBServer(directory / "mariadb", options=SERVER_OPTIONS)
        if {"mariadb", "load", "growth"} & {*parts}:
            server.start()
            stack.callback(server.stop)
        if "mariadb" in parts:
            rows += measure_alone(directory / "alone", server, options.players, options.runs)
        if "load" in parts:
            rows += measure_under_load(directory / "watched", server, options.players)
        if "sqlite" in parts:
            rows += measure_sqlite(directory / "sqlite", min(options.players, SQLITE_PLAYERS), options.runs)
        if rows:
            texts.append(report.sync_text(options.players, rows))
        if "growth" in parts:
            lines = measure_growth(directory / "growth", server, options.sizes, options.runs)
            texts.append(report.growth_text(options.sizes, lines))
    return texts


if __name__ == "__main__":
    main()
