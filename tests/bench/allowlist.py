"""The allowlist: how long a run takes over 10,000 entries, and a tick without changes."""

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

from plugin_bridge.server.allowlist import AllowlistFile, Entry
from plugin_bridge.server.player_uuids import offline_uuid
from tests.bench.figures import Row, median, seconds
from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema, SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, TableShape
from tests.support.authme.game_server import write_game_server
from tests.support.manual_clock import ManualClock
from tests.support.peers.allowlist_server import allowlist_server
from tests.support.peers.mariadb import MariaDBServer
from tests.support.services import open_services

ENTRIES = 10_000


def measure_allowlist(directory: Path, server: MariaDBServer, runs: int) -> list[Row]:
    """Return the rows of the table, on both kinds of database."""
    with server.fresh_database() as schema:
        return [
            *_measure(directory / "mariadb", MariaDBSchema(schema), "MariaDB", runs),
            *_measure(directory / "sqlite", SqliteFile(directory / "sqlite" / "authme.db"), "SQLite", runs),
        ]


def _measure(directory: Path, database: AuthMeDatabase, name: str, runs: int) -> list[Row]:
    game = write_game_server(directory / "game")
    written = [{"uuid": offline_uuid(f"player_{number}"), "name": f"player_{number}"} for number in range(ENTRIES)]
    with allowlist_server(game.directory) as peer:
        game.write_properties(online_mode="false", white_list="true", **peer.properties)
        table = AuthMeTable(database, "authme", TableShape.FULL, {})
        place = open_services(game, table, ManualClock(), directory / "state", authme__enabled=False)
        runner = place.app.allowlist
        assert runner is not None
        gc.collect()
        gc.freeze()  # as the daemon does
        peer.file.write_text(json.dumps(written))
        adopted = seconds(lambda: place.sync())
        compared = median(lambda: _cpu(runner.run), runs)
        tick = median(lambda: _cpu(runner.is_due), runs)
        entries = [Entry(entry["uuid"], entry["name"]) for entry in written]
        file = AllowlistFile(peer.file)
        changed = seconds(lambda: file.change(entries, ()))
        file.close()
        peer.file.write_text("[]")
        restored = seconds(lambda: runner.run(allow_mass_changes=True))
        assert len(json.loads(peer.file.read_text())) == ENTRIES
        place.close()
    return [
        (f"allowlist of {ENTRIES:,} on {name}: adopted first", "", "", f"{adopted:.2f} s"),
        ("the same: compared, CPU", "<= 100 ms", "", f"{compared * 1000:.0f} ms"),
        ("the same: a tick without changes, CPU", "one `stat`", "", f"{tick * 1000:.2f} ms"),
        ("the same: the file written", "<= 1 s", "", f"{changed:.2f} s"),
        ("the same: emptied in the game, and restored", "", "", f"{restored:.2f} s"),
    ]


def _cpu(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
