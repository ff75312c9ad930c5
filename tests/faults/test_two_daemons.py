"""Two daemons on one MariaDB: one run at a time, and what one of them leaves undone the other one ends."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from regsvc.sync.lease import LEASE
from tests.support.authme_database import MariaDBSchema
from tests.support.daemon import Daemon
from tests.support.mariadb import MariaDBServer
from tests.support.our_tables import our_database
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Village
from tests.support.watching import ask_until

SHARED_KEY = "the key that both installations share"
CONFIG = {"auth": {"installation_key": SHARED_KEY}, "database": {"busy_timeout": "20 seconds"}}


@pytest.fixture
def village(mariadb: MariaDBServer, tmp_path: Path) -> Iterator[Village]:
    with Village("mariadb", tmp_path, mariadb, config=CONFIG) as village:
        yield village


@pytest.fixture
def second(village: Village, tmp_path: Path) -> Iterator[Daemon]:
    """Beside the village's own, with a state directory of its own."""
    daemon = Daemon(tmp_path / "second", village._sections())
    daemon.start()
    yield daemon
    daemon.stop()


@contextmanager
def row_held(village: Village, person: Person) -> Iterator[None]:
    """Somebody else's transaction holds the player's row: whoever wants to write it waits."""
    place = village.table.database
    assert isinstance(place, MariaDBSchema)
    with closing(place.database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT username FROM {village.table.name} WHERE username = %s FOR UPDATE", (person.key,))
        yield
        cursor.execute("ROLLBACK")


def type_ban(village: Village, person: Person) -> None:
    our_database(village).execute("UPDATE regsvc_user SET status = 'banned' WHERE username = ?", (person.name,))


def somebody_waits_for_a_row(mariadb: MariaDBServer) -> bool:
    """Not by INNODB_TRX: who asks that one more often than ten times a second gets the first answer again."""
    [[_name, waiting]] = mariadb.ask_as_keeper("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
    return int(str(waiting)) > 0


def lease(village: Village) -> dict[str, Any]:
    """Who has it, and for how many more seconds by the database's clock."""
    [row] = our_database(village).query(
        "SELECT holder, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), expires_at) / 1000000 AS seconds FROM regsvc_lease"
    )
    return row


def admin_token(daemon: Daemon) -> str:
    reply = daemon.post("/api/admin/login", {"username": OPERATOR, "password": OPERATORS_PASSWORD})
    assert reply.status == 200, reply.text
    token: str = reply.json["token"]
    return token


def test_the_second_ends_what_the_first_was_killed_in(village: Village, second: Daemon, mariadb: MariaDBServer) -> None:
    """R41"""
    bob, carol = village.approved("bob"), village.approved("carol")
    token, seconds_token = village.olivia(), admin_token(second)
    assert second.post("/api/admin/sync", {}, token=seconds_token).status == 200  # its first run is over
    type_ban(village, bob)
    type_ban(village, carol)
    with ThreadPoolExecutor(2) as pool:
        with row_held(village, carol):
            first_run = pool.submit(village.post, "/api/admin/sync", {}, token=token)
            ask_until(lambda: somebody_waits_for_a_row(mariadb), bool)
            village.daemon.kill()
            assert isinstance(first_run.exception(), OSError)
        dead = lease(village)
        assert 0 < dead["seconds"] <= LEASE.total_seconds()

        run = pool.submit(second.post, "/api/admin/sync", {}, token=seconds_token)
        assert lease(village)["holder"] == dead["holder"], "nobody is told that the first is dead"
        pass_time(village, LEASE)
        began = time.monotonic()
        assert run.result().json["report"]["errors"] == []
        assert time.monotonic() - began < 10

    assert lease(village)["holder"] != dead["holder"]
    for person in (bob, carol):
        assert not village.authme.login(person.name, person.password)
        assert count_bans(village, person) == 1


def test_a_restarted_daemon_waits_for_nobody(village: Village) -> None:
    bob = village.approved("bob")
    token = village.olivia()
    type_ban(village, bob)
    with ThreadPoolExecutor(1) as pool, row_held(village, bob):
        run = pool.submit(village.post, "/api/admin/sync", {}, token=token)
        ask_until(lambda: count_bans(village, bob), lambda bans: bans == 1)
        village.daemon.kill()
        assert isinstance(run.exception(), OSError)
    dead = lease(village)
    assert dead["seconds"] > 10
    village.daemon.start()
    ask_until(lambda: is_locked(village, bob), lambda locked: locked)
    assert lease(village)["holder"] != dead["holder"]
    assert count_bans(village, bob) == 1


def test_both_may_run_and_mail_and_each_thing_is_done_once(village: Village, second: Daemon) -> None:
    people = [village.approved("bob") for _number in range(6)]
    token, seconds_token = village.olivia(), admin_token(second)
    for person in people:
        type_ban(village, person)
    with ThreadPoolExecutor(8) as pool:
        runs = [
            pool.submit(daemon.post, "/api/admin/sync", {}, token=its)
            for daemon, its in ((village.daemon, token), (second, seconds_token)) * 4
        ]
        assert [run.result().status for run in runs] == [200] * 8
    for person in people:
        assert not village.authme.login(person.name, person.password)
        assert count_bans(village, person) == 1
        village.smtp.wait_for(person.email, 3)  # the code, the welcome, the ban
    assert {len(village.smtp.letters_to(person.email)) for person in people} == {3}


def pass_time(village: Village, period: timedelta) -> None:
    our_database(village).execute(
        "UPDATE regsvc_lease SET expires_at = expires_at - INTERVAL ? SECOND", (period.seconds,)
    )


def count_bans(village: Village, person: Person) -> int:
    [row] = our_database(village).query(
        "SELECT COUNT(*) AS n FROM regsvc_audit WHERE action = 'user.banned' AND target = ?", (person.name,)
    )
    return int(row["n"])


def is_locked(village: Village, person: Person) -> bool:
    return str(village.authme.get(person.name)["password"]).startswith("!locked!")
