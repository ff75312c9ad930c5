"""Sample rows and helpers for the tests of AuthMe's table."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from plugin_bridge.authme.players import NewPlayer, PlayerRow
from plugin_bridge.authme.table import AuthMePlayers
from tests.support.authme.authme_tables import AuthMeTable, TableShape

SHORT = timedelta(milliseconds=100)
HASH = "$SHA$0123456789abcdef$" + "a" * 64
ALICE = NewPlayer("Alice", HASH, None, "alice@example.org", 1_900_000_000_123, "2001:db8:0:0:0:0:0:1")

OpenPlayers = Callable[[AuthMeTable], AuthMePlayers]

every_shape = pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)


def seen(players: AuthMePlayers, name: str = "alice") -> PlayerRow:
    row = players.find(name)
    assert row is not None
    return row
