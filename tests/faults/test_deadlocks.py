"""AuthMe repeats none of its statements: the server never rolls one back because of a transaction of ours.

While the companion does all that it does to players' rows, AuthMe's own statements run against the same rows as fast
as the server takes them, each of a kind on a connection of its own, in AuthMe's order and with its commits.
"""

import os
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from regsvc.core.errors import Refusal
from regsvc.database.models import User
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_like import sha256
from tests.support.peers.mariadb import MariaDBServer
from tests.support.services import PASSWORD, MakeServices, ServiceHarness

ROUNDS = int(os.environ.get("COMPANION_TEST_RACES", "10"))
NAMES = [f"Elm{number}" for number in range(8)]
PAUSE = 0.004  # seconds; at most so long between a player's actions, so that their row is not busy all the time
DEADLOCK = 1213

Statements = Sequence[tuple[str, tuple[object, ...]]]
Kinds = Mapping[str, Callable[[str], Statements]]


def one_of(*columns: str) -> Callable[[str], Statements]:
    """Return AuthMe's statements that set these columns, one after the other."""
    return lambda name: [(f"UPDATE authme SET {column} WHERE username = %s", (name,)) for column in columns]


def register(name: str) -> Statements:
    values = (name, name.capitalize(), sha256("in-the-game", "0123456789abcdef").hash, 1_900_000_000_000, "127.0.0.1")
    return [("INSERT INTO authme (username, realname, password, regdate, regip) VALUES (%s, %s, %s, %s, %s)", values)]


def unregister(name: str) -> Statements:
    return [("DELETE FROM authme WHERE username = %s", (name,))]


PLAYING: Kinds = {
    "login": one_of(
        "ip = '127.0.0.1', realname = realname, lastlogin = lastlogin + 1", "isLogged = 1", "hasSession = 1"
    ),
    "quit": one_of("ip = '127.0.0.1', lastlogin = lastlogin + 1", "isLogged = 0", "hasSession = 0"),
    "password": lambda name: [
        ("UPDATE authme SET password = %s WHERE username = %s", (sha256(str(random.random()), "abcdef").hash, name))
    ],
    "e-mail": one_of("email = CONCAT(username, RAND(), '@game.example.org')"),
    "premium": one_of("premiumUUID = UUID()", "premiumUUID = NULL"),
    "register": register,
    "unregister": unregister,
}
SERVER_START: Kinds = {"server start": lambda name: [("UPDATE authme SET isLogged = 0 WHERE isLogged = 1", ())]}
"""Of a server with no player online, so that AuthMe sends nothing else."""


class Game:
    """Players, each with a connection of their own, for whom AuthMe sends its statements at full speed; counts those.

    Now and then two of AuthMe's own are victims of each other, as they are without a companion.
    """

    def __init__(self, connect: Callable[[], "Connection[Cursor]"], kinds: Kinds, players: Sequence[str]) -> None:
        self._kinds = kinds
        self.done: Counter[str] = Counter()
        self._connect = connect
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._play, args=(name.lower(),)) for name in players]

    @contextmanager
    def playing(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join()

    def _play(self, name: str) -> None:
        dice = random.Random(name)
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            while not self._is_over.wait(dice.random() * PAUSE):
                kind = dice.choice(list(self._kinds))
                for statement, values in self._kinds[kind](name):
                    try:
                        cursor.execute(statement, values)
                    except pymysql.err.IntegrityError:
                        pass  # the name is taken
                    except pymysql.err.OperationalError as error:
                        if error.args[0] != DEADLOCK:
                            raise
                    self.done[kind] += 1


def decide(services: ServiceHarness, name: str, *transitions: str) -> None:
    for transition in transitions:
        with suppress(Refusal):
            services.decide(transition, name)


def add_and_remove(services: ServiceHarness, name: str) -> None:
    with suppress(Refusal):
        services.register("Newcomer")
    decide(services, "Newcomer", "approve", "delete")


def set_password(services: ServiceHarness, name: str) -> None:
    with suppress(Refusal):
        services.set_password(name, PASSWORD)


def sync_many(services: ServiceHarness, name: str) -> None:
    User.update(status="banned").where(User.username_key << [name.lower() for name in NAMES[::2]]).execute()
    services.sync(allow_mass_changes=True)
    decide(services, name, "unban")


OURS: dict[str, Callable[[ServiceHarness, str], None]] = {
    "lock and unlock": lambda services, name: decide(services, name, "ban", "unban", "approve"),
    "insert and delete": add_and_remove,
    "password": set_password,
    "a run over many": sync_many,
}


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize(("kinds", "players"), [(PLAYING, [*NAMES, "Newcomer"]), (SERVER_START, ["the server"])])
def test_no_statement_of_authme_is_in_a_deadlock_with_ours(
    make_services: MakeServices, mariadb: MariaDBServer, kinds: Kinds, players: Sequence[str]
) -> None:
    services = make_services()
    for name in NAMES:
        services.approved(name)
    database = services.table.database
    assert isinstance(database, MariaDBSchema)
    mariadb.run_as_root("SET GLOBAL innodb_print_all_deadlocks = ON")
    game = Game(database.database.connect, kinds, players)
    with mariadb.new_log() as new_log:
        with game.playing():
            for number in range(ROUNDS):
                for act in OURS.values():
                    act(services, NAMES[number % len(NAMES)])
        deadlocks = list_deadlocks(new_log(), database.database.name)
    print(f"{ROUNDS} rounds of {len(OURS)} against {dict(game.done)}; {len(deadlocks)} deadlocks of AuthMe alone")
    assert [one for one in deadlocks if is_ours(one)] == []
    assert min(game.done[kind] for kind in kinds) >= ROUNDS


def list_deadlocks(log: str, schema: str) -> list[str]:
    """Return the server's reports on deadlocks in this schema."""
    reports = re.split(r"(?:Transactions deadlock|deadlock) detected", log)[1:]
    return [report for report in reports if schema in report]


def is_ours(report: str) -> bool:
    """Return whether a statement of ours takes part: we quote the names of tables and columns, AuthMe does not."""
    statements = re.findall(r"^(?:UPDATE|INSERT|DELETE|SELECT)\b.*$", report, re.MULTILINE)
    return any("`" in statement or "regsvc_" in statement for statement in statements)
