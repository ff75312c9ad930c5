"""Database outages under traffic: clients get 503, the daemon recovers by itself, and nothing confirmed is lost."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from pymysql import OperationalError
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.support.authme.authme_database import MariaDBSchema
from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import READY, Reply
from tests.support.our_tables import our_database
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.stack import Person, Stack
from tests.support.together import at_once
from tests.support.watching import TIMEOUT, ask_until, scrape

DATABASE_PASSWORD = "DataSource.mySQLPassword"
CLIENTS = 6
APPLICANTS_EACH = 6


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDBServer]:
    """A server that may be stopped, unlike the session's, which other tests use."""
    options = ["--max-user-connections=1000"]  # a server that starts without such a limit refuses to set one
    server = MariaDBServer(tmp_path_factory.mktemp("own-mariadb"), options=options)
    server.start()
    yield server
    server.stop()


class Client:
    """Registers one applicant after the other, and repeats a request while the reply says to retry."""

    def __init__(self, stack: Stack, applicants: list[tuple[Person, str]]) -> None:
        self._stack = stack
        self._applicants = applicants
        self.answers: Counter[tuple[int, str | None]] = Counter()
        self.was_refused = Event()
        self.may_finish = Event()

    def run(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        for person, code in self._applicants:
            while not self._is_registered(self._stack.register(person, code=code)):
                assert time.monotonic() < deadline, f"{person.name} is still refused"
            if person is self._applicants[-2][0]:
                self.may_finish.wait(TIMEOUT)  # the outage comes in between, however fast we are

    def _is_registered(self, reply: Reply) -> bool:
        self.answers[reply.status, None if reply.status == 201 else reply.code] += 1
        if reply.status == 503:
            assert int(reply.headers["Retry-After"]) > 0
            self.was_refused.set()
            return False
        # a commit whose answer was lost is done all the same, and asking again says that it is
        assert reply.status == 201 or (self.was_refused.is_set() and reply.status in (409, 422)), reply.text
        return True


@pytest.mark.parametrize("end", ["in good order", "by SIGKILL"])
def test_a_database_that_ends_under_traffic_costs_nothing(own_server: MariaDBServer, tmp_path: Path, end: str) -> None:
    """R43"""
    with Stack("mariadb", tmp_path, own_server) as stack, ThreadPoolExecutor(CLIENTS) as pool:
        pid = stack.daemon.pid
        people = [stack.newcomer("alice") for _number in range(CLIENTS * APPLICANTS_EACH)]
        codes = [stack.code_for(person.email) for person in people]
        applicants = list(zip(people, codes, strict=True))
        clients = [Client(stack, applicants[number::CLIENTS]) for number in range(CLIENTS)]
        running = [pool.submit(client.run) for client in clients]

        ask_until(lambda: sum(client.answers.total() for client in clients), lambda answers: answers > CLIENTS)
        own_server.stop() if end == "in good order" else own_server.kill()
        for client in clients:
            client.may_finish.set()
        assert all(client.was_refused.wait(TIMEOUT) for client in clients)
        assert stack.get("/api/config").status == 200
        own_server.start()
        for registering in running:
            registering.result()

        assert stack.daemon.pid == pid
        registered = our_database(stack).query("SELECT username, COUNT(*) AS n FROM regsvc_user GROUP BY username")
        assert {person.name: 1 for person in people}.items() <= {
            row["username"]: row["n"] for row in registered
        }.items()
        entries = our_database(stack).query(
            "SELECT target, COUNT(*) AS n FROM regsvc_audit WHERE action = 'user.registered' GROUP BY target"
        )
        assert {row["target"]: row["n"] for row in entries} == {person.name: 1 for person in people}
        assert not {status for client in clients for status, _code in client.answers} & {500, 502, 504}


def test_connections_that_the_server_ended_are_replaced_unseen(own_server: MariaDBServer, tmp_path: Path) -> None:
    """R43: `wait_timeout` closes idle connections; the next client notices nothing."""
    with Stack("mariadb", tmp_path, own_server) as stack:
        bob, token = stack.approved("bob"), stack.olivia()
        for _round in range(5):
            own_server.end_connections()
            answers = at_once(
                [
                    *[partial(stack.get, "/api/user/status", {"username": bob.name})] * 4,
                    *[partial(stack.login, bob)] * 4,
                    *[partial(stack.post, "/api/admin/sync", {}, token=token)] * 2,
                ]
            )
            assert {reply.status for reply in answers} == {200}
        assert stack.approved("alice")


def test_a_server_that_may_only_be_read_is_answered_with_503_until_it_may_be_written(
    own_server: MariaDBServer, tmp_path: Path
) -> None:
    """R46: MariaDB says the same kind of thing when its disk is full."""
    with Stack("mariadb", tmp_path, own_server) as stack:
        alice = stack.newcomer("alice")
        code = stack.code_for(alice.email)
        own_server.run_as_root("SET GLOBAL read_only = 1")
        unready = ask_until(lambda: stack.get("/health/ready"), lambda reply: reply.status == 503)
        assert (unready.json["fault"], unready.json["writable"]) == ("unwritable", False), "though nobody has written"
        figures = scrape(stack.daemon)
        assert (figures.of("companion_database_up"), figures.of("companion_database_writable")) == (1, 0)
        reply = stack.register(alice, code=code)
        assert (reply.status, reply.code) == (503, "database_away"), reply.text
        assert reply.json["fault"] == "unwritable"
        assert stack.daemon.wait_for_log(
            "cannot be written: its disk is full or read-only (The MariaDB server is running"
        )
        assert stack.status(alice) is None
        own_server.run_as_root("SET GLOBAL read_only = 0")
        ask_until(lambda: stack.get("/health/ready"), lambda reply: reply.status == 200)
        assert stack.register(alice, code=code).status == 201


def test_a_new_password_of_the_database_is_taken_over_while_the_daemon_runs(
    own_server: MariaDBServer, tmp_path: Path
) -> None:
    """The host changes the login's password, mistypes it in AuthMe's config, and then corrects that."""
    with Stack("mariadb", tmp_path, own_server) as stack:
        pid, alice = stack.daemon.pid, stack.newcomer("alice")
        code = stack.code_for(alice.email)
        user = our_schema(stack).user
        stack.game.change_authme({DATABASE_PASSWORD: "tulips-and-noses"})
        change = f"ALTER USER '{user}'@'%' IDENTIFIED BY 'tulips-and-roses'"
        own_server.run_as_root(change, f"KILL USER '{user}'")  # open connections would work on

        away = ask_until(lambda: stack.get("/health/ready"), lambda reply: reply.status == 503)
        assert away.json["writable"] is None
        assert stack.daemon.wait_for_log(f"now in effect: {DATABASE_PASSWORD} (as soon as the database refuses")
        assert {stack.register(alice, code=code).status for _attempt in range(3)} == {503}
        assert stack.get("/health/ready").json["restartNeeded"] == [], "a restart would not help"

        stack.game.change_authme({DATABASE_PASSWORD: "tulips-and-roses"})
        ask_until(lambda: stack.get("/health/ready"), lambda reply: reply.status == 200)
        assert stack.register(alice, code=code).status == 201
        stack.decides("approve", alice)
        assert stack.sync()["errors"] == []
        assert stack.get("/health/ready").json["restartNeeded"] == []
        assert stack.daemon.pid == pid
        assert len([line for line in stack.daemon.log if "the database is away" in line]) == 1
        assert not [line for line in stack.daemon.log if "tulips" in line]


LIMITS = (
    ("ALTER USER 'authme'@'%' WITH MAX_USER_CONNECTIONS 1", "ALTER USER 'authme'@'%' WITH MAX_USER_CONNECTIONS 0"),
    ("SET GLOBAL max_user_connections = 1", "SET GLOBAL max_user_connections = 1000"),
    ("SET GLOBAL max_connections = 10", "SET GLOBAL max_connections = 200"),
)
"""Statements after which MariaDB refuses connections with 1226, 1203 and 1040, and those that lift the limit."""


def test_connections_that_others_have_taken_are_waited_for(own_server: MariaDBServer, tmp_path: Path) -> None:
    """R92: AuthMe's pool, or another program's, takes them all while we run, and has them all when we start."""
    with Stack("mariadb", tmp_path, own_server) as stack:
        alice = stack.pending()
        ask = partial(stack.get, "/api/user/status", {"username": alice.name})
        for limit, lift in LIMITS:
            own_server.run_as_root(limit)
            with all_connections_taken(own_server, our_schema(stack)):
                away = [ask() for _request in range(20)]
                assert {(reply.status, reply.code) for reply in away} == {(503, "database_away")}, limit
                assert all(int(reply.headers["Retry-After"]) > 0 for reply in away)
                stack.daemon.stop()
                stack.daemon.log.clear()
                stack.daemon.spawn()
                assert stack.daemon.wait_for_log("the database is tried again in", TIMEOUT), limit
                assert ask().code == "database_away"
            assert stack.daemon.wait_for_output(READY, TIMEOUT), limit
            assert ask_until(ask, lambda reply: reply.status == 200).status == 200
            assert not [line for line in stack.daemon.log if "bug in" in line or "Traceback" in line]
            own_server.run_as_root(lift)


_REFUSALS = 10


@contextmanager
def all_connections_taken(server: MariaDBServer, schema: Database) -> Iterator[None]:
    """Take every connection that the login may have, also those of the daemon.

    Root's is kept, too: what it frees would be the daemon's.
    """
    held: list[Connection[Cursor]] = []
    refused = 0  # in a row: one refusal may be due to another client's attempt at that moment
    with closing(server.connect_as_root()) as root, root.cursor() as cursor:
        try:
            while True:
                try:
                    held.append(schema.connect())
                    refused = 0
                except OperationalError:
                    ids = {connection.thread_id() for connection in held}  # type: ignore[no-untyped-call]
                    cursor.execute("SELECT id, user FROM information_schema.processlist")
                    listed = cursor.fetchall()
                    others = {number for number, user in listed if user == schema.user} - ids
                    is_full = not others and all(user != "unauthenticated user" for _number, user in listed)
                    refused = refused + 1 if is_full else 0
                    if refused == _REFUSALS:
                        break
                    for number in others:
                        with suppress(OperationalError):  # it has ended by itself
                            cursor.execute("KILL %s", (number,))
            yield
        finally:
            for connection in held:
                connection.close()


def our_schema(stack: Stack) -> Database:
    place = stack.table.database
    assert isinstance(place, MariaDBSchema)
    return place.database


def test_a_busy_file_of_authmes_holds_up_nobody_but_those_who_need_it(tmp_path: Path) -> None:
    """R45: waiting happens on threads and is short, the loop keeps answering, and nothing is lost."""
    with Stack("sqlite", tmp_path, config={"database": {"busy_timeout": "3 s"}}) as stack:
        alices = [stack.pending("alice") for _number in range(4)]
        token = stack.olivia()
        approve = [
            partial(stack.post, "/api/admin/user/approve", {"username": alice.name}, token=token) for alice in alices
        ]
        with ThreadPoolExecutor(len(alices)) as pool:
            with file_busy(stack):
                approvals = [pool.submit(call) for call in approve]
                for _request in range(10):
                    assert stack.get("/api/config").status == 200
                assert not any(approval.done() for approval in approvals), "the loop waited with them"
            replies = [approval.result() for approval in approvals]

        # where the file cannot even be looked at, an unknown name cannot be told from a player's
        assert {reply.status for reply in replies} <= {200, 503}, [reply.text for reply in replies]
        for reply, alice in zip(replies, alices, strict=True):
            if reply.status == 503:
                stack.decides("approve", alice)
        assert stack.sync()["errors"] == []
        assert all(stack.authme.login(alice.name, alice.password) for alice in alices)
