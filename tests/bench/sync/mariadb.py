"""The sync on MariaDB, beside plain SQL over the same rows."""

import statistics
from pathlib import Path

from tests.bench.figures import RUNS, Row, median, seconds
from tests.bench.load import Paths, load
from tests.bench.sync.changes import Crowd
from tests.bench.sync.ticks import CONFIG, prepare, sync
from tests.bench.sync.watch import watching
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack

COPIES = 3
MANY_RUNS = 3  # of the largest change
PLAIN_SCAN = (
    "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('#', username, realname, password, COALESCE(email, '-'), regdate))) "
    "FROM authme"
)


def measure_alone(directory: Path, server: MariaDBServer, players: int, runs: int) -> list[Row]:
    """Measure first adoption and ticks while no requests are made."""
    with Stack("mariadb", directory, server, config=CONFIG, is_quick=False) as stack:
        ticks = prepare(stack, players, runs)
        copy = median(lambda: seconds_of_copy(stack, "authme"), COPIES)
        adopted = ticks.adopt()
        bare = sum(seconds_of_copy(stack, table) for table in ("regsvc_user", "regsvc_sync_record"))
        scan = median(lambda: seconds(lambda: stack.table.database.query(PLAIN_SCAN)), runs)
        idle = ticks.idle = ticks.measure_idle()
        within, goal = "<= idle + 1.5 s", "idle + 0.7 s"
        changes = [
            ticks.row("tick after {count} passwords changed in the game", Crowd.change_passwords, 1_000, within, goal),
            ticks.row("tick after {count} e-mails changed in the game", Crowd.change_emails, 1_000, within, goal),
            ticks.row("tick after {count} of both", Crowd.change_both, 1_000, within, goal),
            ticks.row("tick after {count} bans typed in SQL", Crowd.ban, 1_000, within, "idle + 1 s"),
            ticks.row(
                "tick after {count} bans typed in SQL", Crowd.ban, 10_000, "<= idle + 15 s", "idle + 8 s", MANY_RUNS
            ),
        ]
        full = ticks.measure_full()
        with watching(stack) as watch:
            ticks.measure_full()
    return [
        ("one plain checksum scan of AuthMe's table", "", "", f"{scan:.2f} s"),
        ("tick without changes", "<= 2 x the scan", "0.8 x", f"{idle:.2f} s, {idle / scan:.2f} x"),
        *changes,
        ("`INSERT ... SELECT` of AuthMe's rows", "", "", f"{copy:.1f} s"),
        ("first adoption", "<= 13 x that", "6 x", f"{adopted:.1f} s, {adopted / copy:.2f} x"),
        ("for comparison: bare `INSERT ... SELECT` of the users and players it creates", "", "", f"{bare:.1f} s"),
        ("run that compares every row (`--full`)", "", "", f"{full:.1f} s"),
        ("latency of the event loop meanwhile, 99th percentile", "", "", f"{watch.p99:.1f} ms"),
    ]


def measure_under_load(directory: Path, server: MariaDBServer, players: int) -> list[Row]:
    """Measure how a first adoption affects requests, and how much the process grows."""
    with Stack("mariadb", directory, server, config=CONFIG, is_quick=False) as stack:
        paths = Paths(directory, "config", ["/api/config"])
        prepare(stack, players, 1)
        idle = median(lambda: load(stack.daemon.port, paths).rate, RUNS)
        with watching(stack, paths) as watch:
            sync(stack)
    rate = statistics.median(watch.rates) if watch.rates else float("nan")
    kept = f"{rate / idle:.2f} of {idle:,.0f} requests/s"
    return [
        ("event loop during the first adoption, 99th percentile", "<= 20 ms", "", f"{watch.p99:.1f} ms"),
        ("`GET /api/config` during the first adoption", ">= 0.6 of its idle rate", "0.8", kept),
        ("growth of the process during the first adoption", "<= 64 MiB", "24 MiB", f"{watch.growth:.0f} MiB"),
    ]


def seconds_of_copy(stack: Stack, table: str) -> float:
    """Return the seconds the database alone takes to write these rows, with their indexes."""
    place = stack.table.database
    rows = place.query(f"SHOW COLUMNS FROM {table} WHERE Extra NOT LIKE '%% GENERATED'")
    columns = ", ".join(row["Field"] for row in rows)
    place.execute(f"CREATE TABLE copy_of LIKE {table}")
    taken = seconds(lambda: place.execute(f"INSERT INTO copy_of ({columns}) SELECT {columns} FROM {table}"))
    place.execute("DROP TABLE copy_of")
    return taken
