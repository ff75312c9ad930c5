"""Fixtures for tests of services without a daemon.

clock         a clock that stands still until the test moves it
our_database  our own database on `database_kind`, with its tables, and open on the test's thread
in_parallel   runs a function on many threads at once, each with its own connection
alice         a pending user; `make_user` makes others
olivia        an approved user; `operators` has her name, and those that a test adds
caller        the client of requests
sessions      sessions as the app wires them; `make_sessions` makes them with other keys
services      the services on `authme_table`, at their first start; `make_services` makes them with another config
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from peewee import Database

from regsvc.auth.keys import SigningKeys
from regsvc.auth.sessions import Sessions
from regsvc.core.addresses import Caller
from regsvc.core.rights import Team
from regsvc.database.audit import Audit
from regsvc.database.bulk import PreparedQuery, slot
from regsvc.database.engine import Worker, open_database
from regsvc.database.models import APPROVED, PENDING, User, bind_models
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.database_fixtures import KEY, InParallel, MakeSessions, MakeUser, insert_whole
from tests.support.manual_clock import ManualClock
from tests.support.migrated import fill_file, fill_schema
from tests.support.services import MakeServices, ServiceHarness, open_services


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def our_database(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> Iterator[Database]:
    if database_kind == "mariadb":
        schema = request.getfixturevalue("database")
        fill_schema(schema)
        url = schema.url
    else:
        fill_file(tmp_path / "companion.db")
        url = f"sqlite:///{tmp_path / 'companion.db'}"
    opened = open_database(url, timedelta(seconds=20))
    bind_models(opened)
    with opened.connection_context():
        yield opened


@pytest.fixture
def in_parallel(our_database: Database) -> InParallel:
    """`in_parallel(rule, 50)`: the results of 50 threads that called it at once, exceptions included."""

    def run(rule: Callable[[], Any], threads: int) -> list[Any]:
        worker = Worker(our_database, 1)
        barrier = Barrier(threads)

        def call() -> Any:
            our_database.connect()  # before the start: connections open one by one, and slower than most calls
            barrier.wait()
            try:
                return worker.run_here(rule)
            except Exception as error:
                return error
            finally:
                our_database.close()

        with ThreadPoolExecutor(threads) as pool:
            calls = [pool.submit(call) for number in range(threads)]
        worker.close()
        return [call.result() for call in calls]

    return run


@pytest.fixture
def make_user(our_database: Database, clock: ManualClock) -> MakeUser:
    """`make_user("Bob", status="approved")`; other columns have defaults."""
    by_name = PreparedQuery(User, lambda: User.select().where(User.username_key == slot(User.username_key)))

    def make(username: str, **columns: Any) -> User:
        status = columns.pop("status", PENDING)
        email = columns.pop("email", f"{username}@Example.org")
        row = {
            "username": username,
            "username_key": username.lower(),
            "email": email,
            "email_key": email.lower() if email else None,
            "status": status,
            "applied_status": status,
            "origin": "registered",
            "created_at": clock(),
            **columns,
        }
        insert_whole(User, [row])
        made: User = by_name.first(username_key=row["username_key"])
        return made

    return make


@pytest.fixture
def alice(make_user: MakeUser) -> User:
    return make_user("Alice")


@pytest.fixture
def caller() -> Caller:
    return Caller(address="2001:db8::7", limit_key="2001:db8::/64", language="en", request_id="request-1")


@pytest.fixture
def operators() -> set[str]:
    """Names in ops.json."""
    return {"Olivia"}


@pytest.fixture
def make_sessions(our_database: Database, clock: ManualClock, operators: set[str]) -> MakeSessions:
    def make(signing: SigningKeys | None = None, admin_idle: timedelta = timedelta(hours=2)) -> Sessions:
        return Sessions(
            signing=signing or SigningKeys(KEY),
            now=clock,
            user_lifetime=timedelta(days=30),
            admin_lifetime=timedelta(hours=12),
            user_idle=timedelta(days=7),
            admin_idle=admin_idle,
            team=Team(lambda username: 4 if username in operators else 0),
            needs_second_factor=lambda rights: False,
            audit=Audit(clock),
        )

    return make


@pytest.fixture
def sessions(make_sessions: MakeSessions) -> Sessions:
    return make_sessions()


@pytest.fixture
def olivia(make_user: MakeUser) -> User:
    return make_user("Olivia", status=APPROVED, language="zh")


@pytest.fixture
def make_services(
    game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock, tmp_path: Path
) -> Iterator[MakeServices]:
    with ExitStack() as exit_stack:

        def make(**given: object) -> ServiceHarness:
            services = open_services(game_server, authme_table, clock, tmp_path / "state", **given)
            exit_stack.callback(lambda: services.close())
            return services

        yield make


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services()
