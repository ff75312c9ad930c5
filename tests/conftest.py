"""Fixtures that every test may use.

mariadb         a private MariaDB server (session); its tests are skipped, with a message, where there is none
database        a fresh MariaDB schema and AuthMe's login on it; where services need our tables, one that was emptied
database_kind   "sqlite" and "mariadb": a test that uses it, or anything built on it, runs once on each
authme_shape    the shape of AuthMe's table: FRESH; parametrize this name to cover the others
game_server     the folder of a made-up game server; `game_dir` is its path
authme_table    AuthMe's empty table on `database_kind`, and AuthMe's config.yml for it in the folder
authme          a stand-in for the plugin, on that table
smtp            a real mail server on loopback that keeps the mails
certificate     a certificate for 127.0.0.1
stack           all of these together, on each kind of database, kept for a whole test file; the next one has the same
                if this one left the daemon, its config, the game's files and the settings as they were. So there may be
                players of other files; limits are out of reach
crash_tester    a stack whose daemon is killed again and again; on SQLite a player is online all the while
daemon          a function that creates a `companion serve`: `daemon({"http": {...}}).start()`

A test that has a case on each kind of database runs on one of them, or on both; its name does not matter. Those of the
folders in `EVERY_DATABASE`, and whatever uses `in_parallel`, depend on the database, and run on both. Tests in
`tests/api` run on SQLite, and all others on MariaDB: so a statement runs on both, with its service and with its
route. The marks `one_database("mariadb")` and `every_database` say otherwise, for a test or a module
(`pytestmark`). `COMPANION_TEST_ALL_DATABASES=1` (`make test-all`) runs all on both but those marked `one_database`, of
which some could not.

A test may be `async def`: it has an event loop of its own, on which its fixtures were not made.

On CI (`COMPANION_TEST_FORBID_SKIPS=1`) a skipped test fails the run.
"""

import asyncio
import gc
import inspect
import os
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.authme.authme_database import AuthMeDatabase, DatabaseKind, MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape, create_table
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.certificate import Certificate, make_certificate
from tests.support.crash.crash_tester import CrashTester, open_crash_tester
from tests.support.daemon import Daemon
from tests.support.migrated import SpareSchema
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.peers.smtp import MailServer
from tests.support.quick_columns import read_columns_quickly
from tests.support.stack import SpareStack, Stack

pytest_plugins = ["tests.support.fixtures"]

FORBID_SKIPS = "COMPANION_TEST_FORBID_SKIPS"
ALL_DATABASES = "COMPANION_TEST_ALL_DATABASES"

TESTS = Path(__file__).parent
API = TESTS / "api"
KINDS = ("sqlite", "mariadb")
EVERY_DATABASE = {"bridge", "bench", "cluster", "database", "faults", "torture"}
SECONDS_FOR_ASYNC_TESTS = 60.0
FILLED = {"our_database", "make_services"}
"""The fixtures that fill the schema of `database` with our tables."""

# Otherwise argparse looks for translations of its words on the disk, a hundred times for each command.
os.environ["LANGUAGE"] = "C"
read_columns_quickly()

MakeDaemon = Callable[..., Daemon]


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDBServer]:
    """One server for the session (and for each worker of a parallel run)."""
    server = MariaDBServer(tmp_path_factory.mktemp("mariadb"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def spare_schema(mariadb: MariaDBServer) -> Iterator[SpareSchema]:
    with closing(SpareSchema(mariadb)) as spare:
        yield spare


@pytest.fixture
def database(request: pytest.FixtureRequest, mariadb: MariaDBServer) -> Iterator[Database]:
    is_filled = not FILLED.isdisjoint(request.fixturenames)
    made = request.getfixturevalue("spare_schema").lent() if is_filled else mariadb.fresh_database()
    with made as schema:
        yield schema


@pytest.fixture(params=["sqlite", "mariadb"])
def database_kind(request: pytest.FixtureRequest) -> DatabaseKind:
    return cast(DatabaseKind, request.param)


@pytest.fixture
def authme_shape() -> TableShape:
    return TableShape.FRESH


@pytest.fixture
def game_server(tmp_path: Path) -> GameServer:
    """A game server with Olivia as its only operator and without plugins."""
    return write_game_server(tmp_path / "game")


@pytest.fixture
def game_dir(game_server: GameServer) -> Path:
    return game_server.directory


@pytest.fixture
def authme_table(
    request: pytest.FixtureRequest,
    database_kind: DatabaseKind,
    authme_shape: TableShape,
    game_server: GameServer,
) -> AuthMeTable:
    game_server.authme_directory.mkdir(parents=True)
    place: AuthMeDatabase = (
        MariaDBSchema(request.getfixturevalue("database"))
        if database_kind == "mariadb"
        else SqliteFile(game_server.authme_directory / "authme.db")
    )
    table = AuthMeTable(place, shape=authme_shape)
    create_table(table)
    game_server.install_authme(table)
    return table


@pytest.fixture
def authme(authme_table: AuthMeTable) -> AuthMeLike:
    return AuthMeLike(authme_table)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path)


@pytest.fixture
def smtp() -> Iterator[MailServer]:
    server = MailServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def daemon(tmp_path: Path, game_dir: Path, smtp: MailServer) -> Iterator[MakeDaemon]:
    """Create daemons on `game_dir` and `smtp`; a given section replaces these defaults key by key.

    Daemons that still run at the end are stopped, and must exit with status 0.
    """
    with ExitStack() as running:

        def make(config: Mapping[str, Mapping[str, Any]] | None = None, **options: Any) -> Daemon:
            sections: dict[str, dict[str, Any]] = {
                "game": {"directory": str(game_dir)},
                "mail": {
                    "backend": "smtp",
                    "host": smtp.host,
                    "port": smtp.port,
                    "security": "none",
                    "sender": "companion@example.org",
                },
                "updates": {"enabled": False},
            }
            for section, keys in (config or {}).items():
                sections.setdefault(section, {}).update(keys)
            made = Daemon(options.pop("directory", tmp_path / "daemon"), sections, **options)
            running.callback(lambda: made.stop() if made.is_running else None)
            return made

        yield make


@pytest.fixture(scope="session")
def spare_sqlite_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpareStack]:
    with closing(SpareStack(lambda: Stack("sqlite", tmp_path_factory.mktemp("stack")))) as spare:
        yield spare


@pytest.fixture(scope="session")
def spare_mariadb_stack(mariadb: MariaDBServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpareStack]:
    with closing(SpareStack(lambda: Stack("mariadb", tmp_path_factory.mktemp("stack"), mariadb))) as spare:
        yield spare


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    spare: SpareStack = request.getfixturevalue(f"spare_{request.param}_stack")
    with spare.lent() as stack:
        yield stack


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def crash_tester(request: pytest.FixtureRequest) -> Iterator[CrashTester]:
    server = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    with open_crash_tester(request.param, server) as crash_tester:
        yield crash_tester


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until the tests are collected: none of those objects is garbage, and looking for it takes seconds
    config.addinivalue_line("markers", "one_database(kind): what is tested does not depend on the database")
    config.addinivalue_line("markers", "every_database: this test of such a module does")
    config.addinivalue_line("markers", "long: begun first, since all other workers would wait for it at the end")


def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test files first, in each worker another: none compiles what another one has compiled."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    for file in sorted(TESTS.rglob("test_*.py"))[int(worker["workerid"][2:]) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # told when it is collected, which imports it again
            import_module(".".join(("tests", *file.relative_to(TESTS).with_suffix("").parts)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the other database of a test about one; long tests come first."""
    if (hypothesis := sys.modules.get("hypothesis.internal.conjecture.providers")) is not None:
        # else it parses the whole program in each worker, for seconds, to draw a few of its constants
        vars(hypothesis)["_get_local_constants"] = lambda: vars(hypothesis)["_local_constants"]
        # else it encodes each character there is in each worker, for seconds, to know which are not surrogates
        charmap = sys.modules["hypothesis.internal.charmap"]
        known = sys.modules["hypothesis"]  # whose times say nothing while other workers run
        slow = known.HealthCheck.too_slow
        for test in {getattr(item.obj, "__func__", item.obj) for item in items if isinstance(item, pytest.Function)}:
            if (own := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
                checks = {*own.suppress_health_check, slow}
                beside = known.settings(own, deadline=None, suppress_health_check=checks)
                test._hypothesis_internal_use_settings = beside
        find, intervals = vars(charmap)["intervals_from_codec"], vars(charmap)["IntervalSet"]
        utf_8 = intervals([(0, 0xD7FF), (0xE000, sys.maxunicode)]), intervals([])
        vars(charmap)["intervals_from_codec"] = lambda codec: utf_8 if codec == "utf-8" else find(codec)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    collected = {item.nodeid for item in items}
    deselected = [item for item in items if is_on_another_database(item, collected)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        others = set(deselected)
        items[:] = [item for item in items if item not in others]


def pytest_collection_finish() -> None:
    gc.freeze()
    # with the default of 700, looking for garbage takes a twentieth of the time
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is `async def` on an event loop of its own; TimeoutError if it has no end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), SECONDS_FOR_ASYNC_TESTS))
    return True


def is_on_another_database(item: pytest.Item, collected: Container[str]) -> bool:
    """Return whether this case of the test uses the kind of database on which the test does not run.

    `collected`: the ids of all cases. One without a twin on the other kind always runs: else it never would.
    """
    callspec = getattr(item, "callspec", None)
    kind: str | None = next((value for value in callspec.params.values() if value in KINDS), None) if callspec else None
    if kind is None or not isinstance(item, pytest.Function):
        return False
    mark = next((mark for mark in item.iter_markers() if mark.name in ("one_database", "every_database")), None)
    if mark is not None:
        return mark.name == "one_database" and mark.args != (kind,)
    if os.environ.get(ALL_DATABASES) == "1":
        return False
    other = KINDS[kind == KINDS[0]]
    if item.nodeid.removesuffix(item.name) + item.name.replace(kind, other) not in collected:
        return False
    if item.path.relative_to(TESTS).parts[0] in EVERY_DATABASE or "in_parallel" in item.fixturenames:
        return False
    return kind != ("sqlite" if API in item.path.parents else "mariadb")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Turn a green run with a skipped test red where skips are forbidden."""
    yield
    if os.environ.get(FORBID_SKIPS) == "1" and skipped_tests(session.config) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = skipped_tests(config)
    if os.environ.get(FORBID_SKIPS) == "1" and skipped:
        terminalreporter.section("skips are forbidden here", red=True)
        terminalreporter.line(f"{skipped} tests were skipped, so this run has failed ({FORBID_SKIPS}=1).")


def skipped_tests(config: pytest.Config) -> int:
    """Return how many tests were skipped; 0 in a worker of a parallel run, since the controller counts them."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", ())) if reporter is not None else 0
