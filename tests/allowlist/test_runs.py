"""The game's allowlist and our users, on a server without AuthMe: a stand-in that does what the game does."""

from collections.abc import Iterator

import pytest

from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.allowlist.run import ListReport
from regsvc.database.models import Allowed
from tests.support.authme.game_server import GameServer
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.services import MakeServices, ServiceHarness


@pytest.fixture
def server(game_server: GameServer) -> Iterator[AllowlistServer]:
    with allowlist_server(game_server.directory) as running:
        game_server.write_properties(online_mode="false", white_list="true", **running.properties)
        yield running


@pytest.fixture
def place(make_services: MakeServices, server: AllowlistServer) -> ServiceHarness:
    return make_services(authme__enabled=False)


def run(place: ServiceHarness, *, allow_mass_changes: bool = False) -> ListReport:
    report = place.sync(allow_mass_changes=allow_mass_changes).allowlist
    return report or ListReport()


def states() -> dict[str, str]:
    return {row.username_key: row.state for row in Allowed.select()}


def test_alice_gets_in_once_she_is_approved(place: ServiceHarness, server: AllowlistServer) -> None:
    place.register("Alice")
    run(place)
    assert not server.may_join("Alice")
    place.decide("approve", "Alice")
    assert run(place).counts == {"added": 1}
    assert server.may_join("Alice")
    assert states() == {"alice": "listed"}
    assert run(place) == ListReport()
    place.decide("ban", "Alice")
    assert run(place).counts == {"removed": 1}
    assert not server.may_join("Alice")
    assert states() == {}
    place.decide("unban", "Alice")
    run(place)
    assert server.may_join("Alice")
    place.decide("delete", "Alice")
    run(place)
    assert not server.may_join("Alice")
    assert states() == {}


def test_who_was_on_the_list_first_is_adopted(place: ServiceHarness, server: AllowlistServer) -> None:
    for name in ("bob", "carla"):
        server.type_add(name)
    assert run(place).counts == {"adopted": 2}
    assert (place.user("bob").status, place.user("bob").email) == ("approved", None)
    place.decide("ban", "carla")
    run(place)
    assert server.listed == {offline_uuid("bob"): "bob"}


def test_an_operator_in_the_game_approves_and_takes_off(place: ServiceHarness, server: AllowlistServer) -> None:
    """What is taken off in the game stays off, and the user stays approved."""
    run(place)
    place.register("dave")
    server.type_add("dave")
    assert run(place).counts == {"approved": 1}
    assert place.user("dave").status == "approved"
    server.type_remove("dave")
    assert run(place).counts == {"taken_off": 1}
    assert run(place) == ListReport()
    assert place.user("dave").status == "approved"
    assert not server.may_join("dave")


def test_names_that_differ_in_case_are_two_players(place: ServiceHarness, server: AllowlistServer) -> None:
    """Vanilla takes the UUID of the name in small letters, whoever is meant."""
    run(place)
    place.register("Steve_X")
    server.type_add("Steve_X")
    run(place)
    assert place.user("Steve_X").status == "approved"
    run(place)
    assert server.may_join("Steve_X")
