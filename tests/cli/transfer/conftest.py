"""Fixtures of the tests of backup, migration, export and import, besides those of all tests.

clock       a clock that stands still until the test moves it
services       the services on `authme_table`, at their first start
place       a daemon on AuthMe's table that is not running; `run` runs a command with its config
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import MakeDaemon
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.command_line import Finished, companion, companion_here
from tests.support.daemon import Daemon
from tests.support.manual_clock import ManualClock
from tests.support.services import ServiceHarness, open_services

Run = Callable[..., Finished]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def services(
    game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock, tmp_path: Path
) -> Iterator[ServiceHarness]:
    open_connection = open_services(game_server, authme_table, clock, tmp_path / "state")
    yield open_connection
    open_connection.close()


@pytest.fixture
def place(daemon: MakeDaemon, authme_table: AuthMeTable) -> Daemon:
    return daemon({"sync": {"every": "1 hour"}})


@pytest.fixture
def run(place: Daemon) -> Run:
    """Return `run("users", "list")` with the daemon's config; with an environment, in a process of its own."""

    def run_command(*arguments: str, typed: str = "", **environment: str) -> Finished:
        if environment:
            return companion(*arguments, config=place.config_file, typed=typed, environment=environment)
        return companion_here(*arguments, config=place.config_file, typed=typed)

    return run_command
