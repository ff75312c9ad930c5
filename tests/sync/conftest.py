"""What the tests of the sync may ask for, beside what the rules' tests may.

house       the services on `authme_table`, at their first start; `make_house` makes one with another config
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.authme_tables import AuthMeTable
from tests.support.game_server import GameServer
from tests.support.manual_clock import StandingClock
from tests.support.services import House, MakeHouse, open_house


@pytest.fixture
def make_house(
    game_server: GameServer, authme_table: AuthMeTable, clock: StandingClock, tmp_path: Path
) -> Iterator[MakeHouse]:
    with ExitStack() as stack:

        def make(**given: object) -> House:
            house = open_house(game_server, authme_table, clock, tmp_path / "state", **given)
            stack.callback(lambda: house.close())
            return house

        yield make


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    return make_house()
