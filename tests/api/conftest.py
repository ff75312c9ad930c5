"""What the tests of the routes may ask for, beside what every test may.

make_village  a function that makes a village with another config, kept for the whole test file:
              `make_village("mariadb", config={"registration": {"approval": False}})`
operators     who is in the ops.json of `village`, to be changed
provider      a real OAuth 2.0 server for chat accounts
chat_village  a village whose players have accounts there, on each kind of database; others: `make_chat_village`
impatient     a village on SQLite whose daemon waits for somebody else's lock for a moment only
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.authme_database import DatabaseKind
from tests.support.chat_stack import ChatVillage, make_chat_village
from tests.support.oauth_server import OAuthServer
from tests.support.operators import Operators
from tests.support.stack import MakeVillage, Village


@pytest.fixture(scope="module")
def make_village(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeVillage]:
    with ExitStack() as villages:

        def make(kind: DatabaseKind = "sqlite", **options: Any) -> Village:
            server = request.getfixturevalue("mariadb") if kind == "mariadb" else None
            return villages.enter_context(Village(kind, tmp_path_factory.mktemp("village"), server, **options))

        yield make


@pytest.fixture(scope="module")
def provider() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        yield server


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def chat_village(request: pytest.FixtureRequest, make_village: MakeVillage, provider: OAuthServer) -> ChatVillage:
    return make_chat_village(make_village, provider, request.param)


@pytest.fixture(scope="module")
def operators(village: Village) -> Operators:
    return Operators(village)


@pytest.fixture(scope="module")
def impatient(make_village: MakeVillage) -> Village:
    village = make_village(config={"database": {"busy_timeout": "300 ms"}})
    village.olivia()  # logs in while her own row can be read
    return village
