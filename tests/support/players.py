"""Sample rows and helpers for the tests of AuthMe's table."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from plugin_bridge.authme.players import NewPlayer, PlayerRow, Players, RowDelete, RowWrite
from plugin_bridge.authme.table import AuthMePlayers
from tests.support.authme.authme_tables import AuthMeTable, TableShape

SHORT = timedelta(milliseconds=100)
HASH = "$SHA$0123456789abcdef$" + "a" * 64
ALICE = NewPlayer("Alice", HASH, None, "alice@example.org", 1_900_000_000_123, "2001:db8:0:0:0:0:0:1")

OpenPlayers = Callable[[AuthMeTable], AuthMePlayers]

every_shape = pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)


def add_row(players: Players, new: NewPlayer) -> bool:
    """Insert the row. Returns False if the name has one; raises the refusal of a value."""
    return _write(players, new)


def delete_row(players: Players, row: PlayerRow) -> bool:
    """Delete the row. Returns False if it is not as in `row`."""
    return _write(players, RowDelete(row))


def _write(players: Players, write: RowWrite) -> bool:
    [result] = players.write_many([write])
    if result.refused is not None:
        raise result.refused
    return result.is_written


def seen(players: AuthMePlayers, name: str = "alice") -> PlayerRow:
    row = players.find(name)
    assert row is not None
    return row
