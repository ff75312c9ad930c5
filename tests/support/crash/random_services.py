"""Fresh services, each with an empty AuthMe table, for tests that need many of them in a row."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema, SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import write_game_server
from tests.support.manual_clock import ManualClock
from tests.support.peers.mariadb import MariaDBServer
from tests.support.services import ServiceHarness, open_services

OpenServices = Callable[[], AbstractContextManager[ServiceHarness]]


def services_opener(directory: Path, mariadb: MariaDBServer | None) -> OpenServices:
    """Return a function that opens services in a new folder below `directory`, on SQLite where `mariadb` is None."""
    numbers = itertools.count(1)

    @contextmanager
    def opened() -> Iterator[ServiceHarness]:
        home = directory / f"services-{next(numbers)}"
        home.mkdir()
        game = write_game_server(home / "game")
        game.authme_directory.mkdir(parents=True)
        with ExitStack() as stack:
            place: AuthMeDatabase = SqliteFile(game.authme_directory / "authme.db")
            if mariadb is not None:
                place = MariaDBSchema(stack.enter_context(mariadb.fresh_database()))
            table = AuthMeTable(place)
            create_table(table)
            game.install_authme(table)
            yield stack.enter_context(closing(open_services(game, table, ManualClock(), home / "state")))

    return opened
