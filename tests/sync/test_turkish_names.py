"""Names that AuthMe has lower-cased under a Java whose locale is Turkish, which makes I a dotless ı."""

import asyncio

import pytest

from plugin_bridge.authme.players import turkish_spellings
from regsvc.core.errors import UsernameTaken
from tests.support.authme.authme_database import DatabaseKind
from tests.support.services import ServiceHarness


@pytest.fixture(params=["sqlite", "mariadb"])
def database_kind(request: pytest.FixtureRequest) -> DatabaseKind:
    kind: DatabaseKind = request.param
    return kind


def test_the_player_of_such_a_row_is_known_and_gets_no_second_account(services: ServiceHarness) -> None:
    """ISMAIL and Ines have rows, the one from the time when the game server ran on a Turkish machine."""
    assert services.authme.register("Ismail", "ismails-password")
    services.table.database.execute(
        f"UPDATE {services.table.name} SET username = 'ısmaıl', realname = 'ISMAIL' WHERE username = 'ismail'"
    )
    row = services.row("ısmaıl")
    assert services.authme.register("Ines", "ines-password")
    services.sync()

    def status(name: str) -> object:
        found = asyncio.run(services.app.statuses.find(name, None))
        return None if found is None else found.status

    services.decide("approve", "ısmaıl")
    names = ("ISMAIL", "ısmaıl", "Ines", "INES", "ismail", "Irfan")
    assert [status(name) for name in names] == ["approved", "approved", "pending", "pending", None, None]
    assert services.login("ISMAIL", "ismails-password").username == "ısmaıl"
    for name in ("ISMAIL", "Ismail", "ismail"):
        with pytest.raises(UsernameTaken):
            services.register(name)
    assert services.register("Irfan") == "pending"
    assert services.row("ısmaıl") == row


@pytest.mark.parametrize("name", ["Bob", "ISMAIL", "Ismail", "isMaIl", "iIiIi"])
def test_every_spelling_is_looked_for(name: str) -> None:
    under_turkish = name.replace("I", "ı").lower()
    spellings = turkish_spellings(name.lower())
    assert under_turkish in spellings
    assert spellings[0] == name.lower()


def test_few_are_looked_for_in_any_name() -> None:
    spellings = turkish_spellings("i" * 64)
    assert {"i" * 64, "ı" * 64} < set(spellings)
    assert len(spellings) == len(set(spellings)) == 32
