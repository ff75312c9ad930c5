"""The sync on SQLite, where AuthMe's table is a file of its own."""

from pathlib import Path

from tests.bench.figures import Row
from tests.bench.sync.changes import Change, Crowd
from tests.bench.sync.ticks import CONFIG, prepare
from tests.bench.sync.watch import watching
from tests.support.stack import Stack

CHANGES = 1_000
KINDS: dict[str, Change] = {
    "passwords changed in the game": Crowd.change_passwords,
    "e-mails changed in the game": Crowd.change_emails,
    "bans typed in SQL": Crowd.ban,
    "players removed in the game": Crowd.remove,
    "changes of all these kinds": Crowd.change_all_sorts,
}


def measure_sqlite(directory: Path, players: int, runs: int) -> list[Row]:
    with Stack("sqlite", directory, config=CONFIG, is_quick=False) as stack:
        ticks = prepare(stack, players, runs)
        adopted = ticks.adopt()
        untouched = ticks.measure_idle()
        ticks.idle = ticks.measure_idle(Crowd.log_in)
        changes = [
            ticks.row(f"SQLite: tick after {{count}} {what}", change, CHANGES, "<= idle + 2 s", "idle + 1 s")
            for what, change in KINDS.items()
        ]
        full = ticks.measure_full()
        with watching(stack) as watch:
            ticks.measure_full()
    return [
        (f"SQLite, {players:,} players: first adoption", "<= 10 s", "5 s", f"{adopted:.1f} s"),
        ("SQLite: tick after a write that changed nothing relevant", "<= 0.3 s", "", f"{ticks.idle:.2f} s"),
        ("SQLite: tick without a write", "<= 2 ms", "", f"{untouched * 1000:.1f} ms"),
        *changes,
        ("SQLite: run that compares every row (`--full`)", "", "", f"{full:.1f} s"),
        ("SQLite: latency of the event loop meanwhile, 99th percentile", "", "", f"{watch.p99:.1f} ms"),
    ]
