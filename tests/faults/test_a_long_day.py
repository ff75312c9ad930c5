"""R50: twenty-four hours by the clock, in which everything happens again and again: nothing grows but the tables."""

import asyncio
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
from tests.support.authme_tables import AuthMeTable
from tests.support.game_server import GameServer
from tests.support.manual_clock import StandingClock
from tests.support.services import PASSWORD, House, open_house

HOURS = 24
PLAYERS = 4
GROWTH = 0.05  # of what is in use after the first hours


@pytest.fixture
def house(game_server: GameServer, authme_table: AuthMeTable, tmp_path: Path) -> Iterator[House]:
    house = open_house(game_server, authme_table, StandingClock(), tmp_path / "state")
    yield house
    house.close()


def live_an_hour(house: House, hour: int) -> None:
    """People come, are let in, are banned and forgiven, change their minds in the game, and go."""
    names = [f"Player{number}" for number in range(PLAYERS)]
    for name in names:
        house.register(name)
    for name in names[:-1]:
        house.decide("approve", name)
        house.login(name, PASSWORD)
        house.clock.advance(minutes=2)
    house.authme.set_password(names[0], f"in-the-game-{hour}")
    house.authme.unregister_from_console(names[1])
    house.decide("ban", names[2], expires_at=house.clock().replace(year=2100))
    house.authme.register(f"Guest{hour}", "the-guests-own")
    house.sync()
    house.decide("unban", names[2])
    house.set_password(names[3], "set-by-an-admin")
    house.clock.advance(minutes=60 - 2 * (PLAYERS - 1))
    house.sync()
    house.decide("delete", f"Guest{hour}")
    for name in names:
        house.decide("delete", name)
    house.sync()
    house.app.worker.run_here(house.app.purge_expired)


def in_use() -> int:
    """Blocks of memory that the interpreter has given out and not got back."""
    gc.collect()
    return sys.getallocatedblocks()


def kinds_of_objects() -> Counter[str]:
    """What the collector knows of, by type: what says more than a figure when the figure is too high."""
    return Counter(type(thing).__name__ for thing in gc.get_objects())


def count_open_files() -> int:
    """Without those of SQLite: it keeps the file of a closed connection while another one holds a lock on it, and
    gives it to the next one that is opened. Its connections are counted instead.
    """
    targets = [os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()]
    return sum(not target.removesuffix("-wal").removesuffix("-shm").endswith(".db") for target in targets)


def count_connections() -> int:
    """To databases, in this process."""
    gc.collect()
    kinds = (sqlite3.Connection, pymysql.connections.Connection)
    return sum(isinstance(thing, kinds) for thing in gc.get_objects())


def open_every_connection(house: House) -> None:
    """Threads begin, and connect, when they are first needed: all of them now, so that none does so later."""
    count = house.app.context.config.database.threads
    meeting = threading.Barrier(count)

    def look_together() -> None:
        house.app.reconciler.look("nobody", is_held=False)
        meeting.wait(30)

    async def everybody() -> None:
        await asyncio.gather(*(house.app.worker.run(look_together) for _thread in range(count)))

    asyncio.run(everybody())


def test_a_day_leaves_no_more_behind_than_an_hour(house: House) -> None:
    open_every_connection(house)
    for hour in range(4):  # caches fill
        live_an_hour(house, hour)
    before, kinds = in_use(), kinds_of_objects()
    files, connections = count_open_files(), count_connections()
    for hour in range(4, HOURS):
        live_an_hour(house, hour)
    more = (kinds_of_objects() - kinds).most_common(8)
    assert in_use() <= before * (1 + GROWTH), more
    assert count_open_files() <= files
    assert count_connections() <= connections


def test_a_day_of_requests_leaves_no_task_and_no_connection(house: House) -> None:
    open_every_connection(house)

    async def a_day() -> tuple[set[str], int, int]:
        delivery = asyncio.create_task(house.app.mail_parts.delivery.run(), name="mail")
        for hour in range(HOURS):
            runs = [house.app.sync.run() for _call in range(5)]
            looks = [house.app.services.health.vitals() for _call in range(5)]
            await asyncio.gather(*runs, *looks)
            await house.app.worker.run(house.app.purge_expired)
            house.clock.advance(hours=1)
            if hour == 1:
                files, connections = count_open_files(), count_connections()
        house.app.mail_parts.delivery.stop()
        await delivery
        left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        return left, count_open_files() - files, count_connections() - connections

    tasks_left, more_files, more_connections = asyncio.run(a_day())
    assert tasks_left == set()
    assert more_files <= 0
    assert more_connections <= 0
    assert OutboxEntry.select().where(OutboxEntry.done_at.is_null()).count() == 0
