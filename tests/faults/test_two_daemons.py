"""Two daemons on one MariaDB: one sync run at a time, and each finishes what the other one left undone."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from regsvc.sync.service import LEASE
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.daemon import Daemon
from tests.support.event_listener import EventListener
from tests.support.our_tables import our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Stack
from tests.support.watching import ask_until

SHARED_KEY = "the key that both installations share"
CONFIG = {"auth": {"installation_key": SHARED_KEY}, "database": {"busy_timeout": "20 seconds"}}


@pytest.fixture
def stack(mariadb: MariaDBServer, tmp_path: Path) -> Iterator[Stack]:
    with Stack("mariadb", tmp_path, mariadb, config=CONFIG) as stack:
        yield stack


@pytest.fixture
def second(stack: Stack, tmp_path: Path) -> Iterator[Daemon]:
    """A second daemon beside the stack's, with its own state directory."""
    daemon = Daemon(tmp_path / "second", stack._sections())
    daemon.start()
    yield daemon
    daemon.stop()


@contextmanager
def row_held(stack: Stack, person: Person) -> Iterator[None]:
    """Lock the user's row in another transaction, so that a run waits for it."""
    place = stack.table.database
    assert isinstance(place, MariaDBSchema)
    with closing(place.database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT username FROM regsvc_user WHERE username_key = %s FOR UPDATE", (person.key,))
        yield
        cursor.execute("ROLLBACK")


def ban_in_sql(stack: Stack, person: Person) -> None:
    our_database(stack).execute("UPDATE regsvc_user SET status = 'banned' WHERE username = ?", (person.name,))


def somebody_waits_for_a_row(mariadb: MariaDBServer) -> bool:
    """Return whether a transaction waits; INNODB_TRX would repeat its last result if asked ten times a second."""
    [[_name, waiting]] = mariadb.ask_as_root("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
    return int(str(waiting)) > 0


def lease(stack: Stack) -> dict[str, Any]:
    """Return the lease's holder and its remaining seconds by the database's clock."""
    [row] = our_database(stack).query(
        "SELECT holder, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), expires_at) / 1000000 AS seconds FROM regsvc_lease"
    )
    return row


def admin_token(daemon: Daemon) -> str:
    reply = daemon.post("/api/admin/login", {"username": OPERATOR, "password": OPERATORS_PASSWORD})
    assert reply.status == 200, reply.text
    token: str = reply.json["token"]
    return token


def test_the_second_ends_what_the_first_was_killed_in(stack: Stack, second: Daemon, mariadb: MariaDBServer) -> None:
    """R41"""
    bob, carol = stack.approved("bob"), stack.approved("carol")
    token, seconds_token = stack.olivia(), admin_token(second)
    assert second.post("/api/admin/sync", {}, token=seconds_token).status == 200  # its first run is over
    ban_in_sql(stack, bob)
    ban_in_sql(stack, carol)
    with ThreadPoolExecutor(2) as pool:
        with row_held(stack, carol):
            first_run = pool.submit(stack.post, "/api/admin/sync", {}, token=token)
            ask_until(lambda: somebody_waits_for_a_row(mariadb), bool)
            stack.daemon.kill()
            assert isinstance(first_run.exception(), OSError)
        dead = lease(stack)
        assert 0 < dead["seconds"] <= LEASE.total_seconds()

        run = pool.submit(second.post, "/api/admin/sync", {}, token=seconds_token)
        assert lease(stack)["holder"] == dead["holder"], "nobody is told that the first is dead"
        pass_time(stack, LEASE)
        began = time.monotonic()
        assert run.result().json["report"]["errors"] == []
        assert time.monotonic() - began < 10

    assert lease(stack)["holder"] != dead["holder"]
    for person in (bob, carol):
        assert not stack.authme.login(person.name, person.password)
        assert count_bans(stack, person) == 1


def test_a_restarted_daemon_waits_for_nobody(stack: Stack, mariadb: MariaDBServer) -> None:
    bob = stack.approved("bob")
    token = stack.olivia()
    ban_in_sql(stack, bob)
    with ThreadPoolExecutor(1) as pool, row_held(stack, bob):
        run = pool.submit(stack.post, "/api/admin/sync", {}, token=token)
        ask_until(lambda: somebody_waits_for_a_row(mariadb), bool)
        stack.daemon.kill()
        assert isinstance(run.exception(), OSError)
    dead = lease(stack)
    assert dead["seconds"] > 10
    stack.daemon.start()
    ask_until(lambda: is_locked(stack, bob), lambda locked: locked)
    assert lease(stack)["holder"] != dead["holder"]
    assert count_bans(stack, bob) == 1


def test_both_may_run_and_mail_and_each_thing_is_done_once(stack: Stack, second: Daemon) -> None:
    people = [stack.approved("bob") for _number in range(6)]
    token, seconds_token = stack.olivia(), admin_token(second)
    for person in people:
        ban_in_sql(stack, person)
    with ThreadPoolExecutor(8) as pool:
        runs = [
            pool.submit(daemon.post, "/api/admin/sync", {}, token=its)
            for daemon, its in ((stack.daemon, token), (second, seconds_token)) * 4
        ]
        assert [run.result().status for run in runs] == [200] * 8
    for person in people:
        assert not stack.authme.login(person.name, person.password)
        assert count_bans(stack, person) == 1
        stack.smtp.wait_for(person.email, 3)  # the code, the welcome, the ban
    assert {len(stack.smtp.letters_to(person.email)) for person in people} == {3}
    alice = stack.newcomer("alice")
    header = {"X-Application-Token": stack.register(alice).json["applicationToken"]}
    with EventListener(stack.daemon, None, header, path="/api/application/events") as page:
        page.wait_for(status="pending")
        assert second.post("/api/admin/user/approve", {"username": alice.name}, token=seconds_token).status == 200
        page.wait_for(status="approved")


def pass_time(stack: Stack, period: timedelta) -> None:
    our_database(stack).execute(
        "UPDATE regsvc_lease SET expires_at = expires_at - INTERVAL ? SECOND", (period.seconds,)
    )


def count_bans(stack: Stack, person: Person) -> int:
    [row] = our_database(stack).query(
        "SELECT COUNT(*) AS n FROM regsvc_audit WHERE action = 'user.banned' AND target = ?", (person.name,)
    )
    return int(row["n"])


def is_locked(stack: Stack, person: Person) -> bool:
    return str(stack.authme.get(person.name)["password"]).startswith("!locked!")
