"""What the tests of the sync may ask for, beside what the rules' tests may.

services       the services on `authme_table`, at their first start; `make_services` makes one with another config
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.authme_tables import AuthMeTable
from tests.support.game_server import GameServer
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness, open_services


@pytest.fixture
def make_services(
    game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock, tmp_path: Path
) -> Iterator[MakeServices]:
    with ExitStack() as stack:

        def make(**given: object) -> ServiceHarness:
            services = open_services(game_server, authme_table, clock, tmp_path / "state", **given)
            stack.callback(lambda: services.close())
            return services

        yield make


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services()
