"""Fixtures of the tests of commands, besides those of all tests.

place  a daemon on AuthMe's table that is not running
run    a function that runs a command with the daemon's config: `run("users", "list")`
"""

from collections.abc import Callable

import pytest

from tests.conftest import MakeDaemon
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.command_line import Finished, companion_here
from tests.support.daemon import Daemon


@pytest.fixture
def place(daemon: MakeDaemon, authme_table: AuthMeTable) -> Daemon:
    return daemon({"sync": {"every": "1 hour"}})


@pytest.fixture
def run(place: Daemon) -> Callable[..., Finished]:
    def run_command(*arguments: str, typed: str = "") -> Finished:
        return companion_here(*arguments, config=place.config_file, typed=typed)

    return run_command
