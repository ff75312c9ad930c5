"""Fixtures for the tests of the bridge.

open_players  opens a table of AuthMe's as the daemon does, under the names of AuthMe's config
players       the usual one, opened
"""

from collections.abc import Iterator

import pytest

from plugin_bridge.authme.config import read_authme_config
from plugin_bridge.authme.mysql import MySqlPlayers
from plugin_bridge.authme.sqlite import SqlitePlayers
from plugin_bridge.authme.table import AuthMePlayers
from regsvc.database.engine import open_database
from tests.support.authme.authme_database import MariaDBSchema, SqliteFile
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.players import SHORT, OpenPlayers


@pytest.fixture
def open_players(game_server: GameServer) -> Iterator[OpenPlayers]:
    """Open a table as the daemon does, under the names of AuthMe's config."""
    opened: list[AuthMePlayers] = []

    def open_table(table: AuthMeTable) -> AuthMePlayers:
        game_server.install_authme(table)
        config = read_authme_config(game_server.authme_config)
        place = table.database
        if isinstance(place, SqliteFile):
            players: AuthMePlayers = SqlitePlayers(place.path, config.table, config.columns, SHORT)
        else:
            assert isinstance(place, MariaDBSchema)
            players = MySqlPlayers(open_database(place.database.url, SHORT), config.table, config.columns)
        opened.append(players)
        return players

    yield open_table
    for players in opened:
        players.close()
        players._database.close()


@pytest.fixture
def players(authme_table: AuthMeTable, open_players: OpenPlayers) -> AuthMePlayers:
    return open_players(authme_table)
