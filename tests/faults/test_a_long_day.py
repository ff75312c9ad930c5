"""R50: a day of simulated use, over and over the same: nothing grows but the tables.

`make torture` simulates a hundred and twenty hours.
"""

import asyncio
import contextlib
import gc
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from regsvc.database.models import OutboxEntry
from tests.support.authme.authme_like import long_ago
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.bukkit_server import BukkitServer
from tests.support.authme.game_server import GameServer
from tests.support.crash.operator_rights import OperatorRights
from tests.support.manual_clock import ManualClock
from tests.support.services import PASSWORD, ServiceHarness, open_services

HOURS = int(os.environ.get("COMPANION_TEST_HOURS", "24"))
PLAYERS = 4
OLIVIAS = "olivias-own"
GROWTH = 0.02  # of what is in use after the first hours


@pytest.fixture
def services(game_server: GameServer, authme_table: AuthMeTable, tmp_path: Path) -> Iterator[ServiceHarness]:
    long_ago(authme_table).register("Olivia", OLIVIAS)
    services = open_services(game_server, authme_table, ManualClock(), tmp_path / "state")
    services.sync()
    yield services
    services.close()


@pytest.fixture
def bukkit(services: ServiceHarness) -> BukkitServer:
    server = BukkitServer(services.game, services.authme, services.clock)
    server.start()
    return server


def live_an_hour(services: ServiceHarness, bukkit: BukkitServer, rights: OperatorRights, hour: int) -> None:
    """Users register, are approved, banned and unbanned, change their password in the game, and leave.

    At the game's login prompt are a stranger who calls themselves Olivia, and then Olivia; she loses nothing by it.
    """
    names = [f"Player{number}" for number in range(PLAYERS)]
    for name in names:
        services.register(name)
    for name in names[:-1]:
        services.decide("approve", name)
        services.login(name, PASSWORD)
        services.clock.advance(minutes=2)
    services.authme.set_password(names[0], f"in-the-game-{hour}")
    services.authme.unregister_from_console(names[1])
    services.decide("ban", names[2], expires_at=services.clock().replace(year=2100))
    services.authme.register(f"Guest{hour}", "the-guests-own")
    services.sync()
    services.decide("unban", names[2])
    services.set_password(names[3], "set-by-an-admin")
    bukkit.join("Olivia")
    rights.check()
    bukkit.quit("Olivia")
    bukkit.join("Olivia")
    assert bukkit.login("Olivia", OLIVIAS)
    bukkit.quit("Olivia")
    services.clock.advance(minutes=60 - 2 * (PLAYERS - 1))
    services.sync()
    services.decide("delete", f"Guest{hour}")
    for name in names:
        services.decide("delete", name)
    services.sync()
    services.app.worker.run_here(services.app.purge_expired)


def in_use() -> int:
    """Return the number of memory blocks that the interpreter has allocated."""
    gc.collect()
    return sys.getallocatedblocks()


def kinds_of_objects() -> Counter[str]:
    """Count the collector's objects by type, to explain a figure that is too high."""
    return Counter(type(thing).__name__ for thing in gc.get_objects())


def list_open_files() -> Counter[str]:
    """Count the open files by name, those of SQLite included; sockets, pipes and the like by their kind."""
    names: Counter[str] = Counter()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing itself
            names[Path(file.readlink()).name.partition(":")[0]] += 1
    return names


def count_connections() -> int:
    """Count the database connections of this process."""
    gc.collect()
    kinds = (sqlite3.Connection, pymysql.connections.Connection)
    return sum(isinstance(thing, kinds) for thing in gc.get_objects())


def open_every_connection(services: ServiceHarness) -> None:
    """Start and connect all threads now, because they otherwise start when they are first needed.

    Each one has three files of SQLite: our database, its log of writes, and AuthMe's.
    """
    count = services.app.context.config.database.threads
    meeting = threading.Barrier(count)

    def look_together() -> None:
        services.app.reconciler.load("nobody")
        meeting.wait(30)

    async def everybody() -> None:
        await asyncio.gather(*(services.app.worker.run(look_together) for _thread in range(count)))
        await services.app.sync_worker.run(services.app.reconciler.load, "nobody")

    asyncio.run(everybody())


@pytest.mark.one_database("mariadb")
def test_a_day_leaves_no_more_behind_than_an_hour(services: ServiceHarness, bukkit: BukkitServer) -> None:
    open_every_connection(services)
    rights = OperatorRights(services, bukkit, lambda: services.app.worker.run_here(services.app.lost_rights.end))
    for hour in range(4):  # caches fill
        live_an_hour(services, bukkit, rights, hour)
    before, kinds = in_use(), kinds_of_objects()
    files, connections = list_open_files(), count_connections()
    for hour in range(4, HOURS):
        live_an_hour(services, bukkit, rights, hour)
    more = (kinds_of_objects() - kinds).most_common(8)
    assert in_use() <= before * (1 + GROWTH), more
    assert list_open_files() == files
    assert count_connections() <= connections


def test_a_day_of_requests_leaves_no_task_and_no_connection(services: ServiceHarness) -> None:
    open_every_connection(services)

    async def a_day() -> set[str]:
        delivery = asyncio.create_task(services.app.mail_delivery.run(), name="mail")
        for hour in range(HOURS):
            runs = [services.app.sync.run() for _call in range(5)]
            looks = [services.app.health.status() for _call in range(5)]
            await asyncio.gather(*runs, *looks)
            await services.app.worker.run(services.app.purge_expired)
            services.clock.advance(hours=1)
            if hour == 1:
                files, connections = list_open_files(), count_connections()
        services.app.mail_delivery.stop()
        await delivery
        assert list_open_files() == files
        assert count_connections() <= connections
        return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(a_day()) == set()
    assert OutboxEntry.select().where(OutboxEntry.done_at.is_null()).count() == 0
