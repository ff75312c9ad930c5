"""`make bench-sync`: the sync over a million players, compared with the plain SQL; writes docs/benchmarks.md.

`python -m tests.bench.sync 200000` runs it with fewer players.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.bench.__main__ import resident_mib
from tests.bench.report import write_section
from tests.support.authme.authme_database import SqliteFile
from tests.support.daemon import HOST
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack
from tests.support.watching import ask_until

PLAYERS = 1_000_000
SQLITE_PLAYERS = 100_000
CHANGES = 1_000
RUNS = 5
COPIES = 3
PROBE_PAUSE = 0.002  # seconds between two probes of the event loop
PROBED, LOADED = 3.0, 2.0  # seconds: in turn, since a queue of requests is not a blocked loop
# What a host with a million players has; the default of 128 MiB would measure the disk.
SERVER_OPTIONS = ("--innodb-buffer-pool-size=2G", "--loose-innodb-log-file-size=512M")
PLAIN_SCAN = (
    "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('#', username, realname, password, COALESCE(email, '-'), regdate))) "
    "FROM authme"
)
CONFIG: dict[str, dict[str, Any]] = {"log": {"level": "warning"}}

Line = tuple[str, str, str]
"""Measurement, target, and result."""


@dataclass
class Watch:
    """Figures of the daemon while something else was going on."""

    latencies: list[float] = field(default_factory=list)  # ms
    rates: list[float] = field(default_factory=list)  # requests a second
    growth: float = 0.0  # MiB


def main() -> None:
    players = int(sys.argv[1]) if len(sys.argv) > 1 else PLAYERS
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = MariaDBServer(directory / "mariadb", options=SERVER_OPTIONS)
        server.start()
        stack.callback(server.stop)
        lines = [
            *measure_idle(directory / "alone", server, players),
            *measure_under_load(directory / "watched", server, players),
            *measure_sqlite(directory / "sqlite", min(players, SQLITE_PLAYERS)),
        ]
    print(write_section(f"The sync over {players:,} players", lines))


def measure_idle(directory: Path, server: MariaDBServer, players: int) -> list[Line]:
    """Measure first adoption and ticks while no requests are made."""
    with Stack("mariadb", directory, server, config=CONFIG, is_quick=False) as stack:
        insert_players(stack, players)
        plain_copy = statistics.median(seconds_of_copy(stack, "authme") for _copy in range(COPIES))
        adoption = sync(stack)
        assert adoption["adopted"] == players, adoption
        bare = sum(seconds_of_copy(stack, table) for table in ("regsvc_user", "regsvc_player"))
        sync(stack)  # examines what the first run wrote
        scan = median(lambda: seconds(lambda: stack.table.database.query(PLAIN_SCAN)))
        idle = median(lambda: sync(stack)["durationMs"] / 1000)
        theirs = median(lambda: tick_after(stack, change_theirs))
        ours = median(lambda: tick_after(stack, change_ours), runs=3)
    adopted = adoption["durationMs"] / 1000
    return [
        ("one plain checksum scan of AuthMe's table", "", f"{scan:.2f} s"),
        ("tick without changes", "<= 2 x the scan", f"{idle:.2f} s, {idle / scan:.2f} x"),
        (f"tick after {CHANGES:,} passwords changed in the game", "<= idle + 1.5 s", gain(theirs, idle)),
        (f"tick after {CHANGES:,} bans typed in SQL", "<= idle + 1.5 s", gain(ours, idle)),
        ("`INSERT ... SELECT` of AuthMe's rows", "", f"{plain_copy:.1f} s"),
        ("first adoption", "<= 4 x that", f"{adopted:.1f} s, {adopted / plain_copy:.2f} x"),
        ("for comparison: bare `INSERT ... SELECT` of the users and players it creates", "", f"{bare:.1f} s"),
    ]


def measure_under_load(directory: Path, server: MariaDBServer, players: int) -> list[Line]:
    """Measure how a first adoption affects requests, and how much the process grows."""
    with Stack("mariadb", directory, server, config=CONFIG, is_quick=False) as stack:
        stack.olivia()
        idle = statistics.median(load(stack.daemon.port) for _run in range(RUNS))
        insert_players(stack, players)
        watch = Watch()
        with watching(stack, watch):
            sync(stack)
    latencies = statistics.quantiles(watch.latencies, n=100)
    rate = statistics.median(watch.rates) if watch.rates else float("nan")
    relative_rate = f"{rate / idle:.2f} of {idle:,.0f} requests/s"
    return [
        ("latency of the event loop during the first adoption, 99th percentile", "<= 20 ms", f"{latencies[-1]:.1f} ms"),
        (
            "`GET /api/config` during the first adoption",
            ">= 0.7 of its idle rate",
            relative_rate,
        ),
        ("memory growth of the process during the first adoption", "<= 64 MiB", f"{watch.growth:.0f} MiB"),
    ]


def measure_sqlite(directory: Path, players: int) -> list[Line]:
    with Stack("sqlite", directory, config=CONFIG, is_quick=False) as stack:
        insert_players(stack, players)
        adoption = sync(stack)
        assert adoption["adopted"] == players, adoption
        sync(stack)
        idle = median(lambda: sync_exactly(stack))
        touched = median(lambda: tick_after(stack, touch))
    return [
        (f"SQLite, {players:,} players: first adoption", "", f"{adoption['durationMs'] / 1000:.1f} s"),
        ("SQLite: tick after a write that changed nothing relevant", "<= 0.3 s", f"{touched:.2f} s"),
        ("SQLite: tick without a write", "<= 2 ms", f"{idle * 1000:.1f} ms"),
    ]


# --- what is done to the tables ---


def insert_players(stack: Stack, count: int) -> None:
    """Insert players who registered long ago, in an order that no index has."""
    sync(stack)  # so that the daemon's first run is over and does not find half of them
    digits = list(range(count))
    random.Random(1).shuffle(digits)
    rows = (
        (f"player_{n:07}", f"Player_{n:07}", f"$SHA${n:016x}${n:064x}", f"player{n}@example.org", 1500000000000 + n)
        for n in digits
    )
    place, statement = (
        stack.table.database,
        "INSERT INTO authme (username, realname, password, email, regdate) VALUES ",
    )
    if isinstance(place, SqliteFile):
        with closing(place.connect()) as connection:
            connection.execute("BEGIN")
            connection.executemany(f"{statement} (?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")
        return
    for page in paged(rows, 2_000):
        place.execute(statement + ", ".join(map(str, page)))


def seconds_of_copy(stack: Stack, table: str) -> float:
    """Return the seconds the database alone takes to write these rows, with their indexes."""
    place = stack.table.database
    rows = place.query(f"SHOW COLUMNS FROM {table} WHERE Extra NOT LIKE 'VIRTUAL%%'")
    columns = ", ".join(row["Field"] for row in rows)
    place.execute(f"CREATE TABLE copy_of LIKE {table}")
    taken = seconds(lambda: place.execute(f"INSERT INTO copy_of ({columns}) SELECT {columns} FROM {table}"))
    place.execute("DROP TABLE copy_of")
    return taken


def change_theirs(stack: Stack) -> None:
    """Change as many passwords in the game."""
    for page in paged(iter(some_names(stack)), 500):
        names = ", ".join(f"'{name}'" for name in page)
        stack.table.database.execute(
            f"UPDATE authme SET password = CONCAT('$SHA$', MD5(RAND())) WHERE username IN ({names})"
        )


def change_ours(stack: Stack) -> None:
    """Ban users by SQL, once the mails of the previous bans are sent: they are not part of the tick."""
    ask_until(lambda: waiting_mails(stack), lambda count: count == 0)
    names = ", ".join(f"'{name}'" for name in some_names(stack))
    stack.table.database.execute(
        f"UPDATE regsvc_user SET status = 'banned' WHERE status = 'approved' AND username_key IN ({names})"
    )


def waiting_mails(stack: Stack) -> int:
    [row] = stack.table.database.query("SELECT COUNT(*) AS count FROM regsvc_outbox WHERE outcome IS NULL")
    return int(row["count"])


def touch(stack: Stack) -> None:
    """Log a player in to the game, which does not concern us."""
    stack.table.database.execute(
        "UPDATE authme SET lastlogin = COALESCE(lastlogin, 0) + 1 WHERE username = 'player_0000000'"
    )


def some_names(stack: Stack) -> list[str]:
    [row] = stack.table.database.query("SELECT COUNT(*) AS count FROM authme")
    return [f"player_{n:07}" for n in random.sample(range(int(row["count"]) - 1), CHANGES)]


# --- runs of the sync ---


def sync(stack: Stack) -> dict[str, Any]:
    """Run the sync in the daemon, however long it takes; return its report."""
    connection = HTTPConnection(HOST, stack.daemon.port, timeout=3600)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {stack.olivia()}"}
    with closing(connection):
        connection.request("POST", "/api/admin/sync", "{}", headers)
        reply = json.loads(connection.getresponse().read())
    report: dict[str, Any] = reply["report"]
    return report


def sync_exactly(stack: Stack) -> float:
    """Return the seconds of a run with nothing to do."""
    return float(sync(stack)["durationMs"]) / 1000


def tick_after(stack: Stack, change: Callable[[Stack], None]) -> float:
    """Return the seconds of the tick that finds the change; the next one finds what that one wrote."""
    change(stack)
    found = sync(stack)
    assert found["braked"] is None, found
    sync(stack)
    sync(stack)
    return float(found["durationMs"]) / 1000


@contextmanager
def watching(stack: Stack, watch: Watch) -> Iterator[None]:
    """Send requests all the while: one probe after the other for some seconds, then a load, and so on."""
    is_over, before = threading.Event(), resident_mib(stack.daemon.pid)
    peak = [before]

    def probe(connection: HTTPConnection) -> None:
        began = time.perf_counter()
        connection.request("GET", "/health/alive")
        connection.getresponse().read()
        watch.latencies.append((time.perf_counter() - began) * 1000)
        peak[0] = max(peak[0], resident_mib(stack.daemon.pid))

    def ask() -> None:
        with closing(HTTPConnection(HOST, stack.daemon.port, timeout=60)) as connection:
            while not is_over.is_set():
                ends_at = time.monotonic() + PROBED
                while time.monotonic() < ends_at and not is_over.wait(PROBE_PAUSE):
                    probe(connection)
                rate = load(stack.daemon.port)
                if not is_over.is_set():
                    watch.rates.append(rate)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        is_over.set()
        asking.join()
        watch.growth = peak[0] - before


def load(port: int) -> float:
    """Return requests per second of `/api/config`."""
    command = [sys.executable, "-m", "tests.bench.sync_load", str(port), "/api/config", str(LOADED)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


# --- figures ---


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(measure: Callable[[], float], runs: int = RUNS) -> float:
    return statistics.median(measure() for _run in range(runs))


def gain(measured: float, idle: float) -> str:
    return f"{measured:.2f} s, idle + {measured - idle:.2f} s"


def paged(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    page: list[Any] = []
    for row in rows:
        page.append(row)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


if __name__ == "__main__":
    main()
