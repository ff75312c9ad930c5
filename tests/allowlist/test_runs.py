"""The game's allowlist and our users, on a server without AuthMe: a stand-in that does what the game does."""

import json
import socket
from collections.abc import Iterator

import pytest

from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.allowlist.run import ListReport
from regsvc.core.errors import WrongStatus
from regsvc.database.models import Allowed, AuditEntry
from regsvc.sync.reporting.words import describe_plan
from tests.support.authme.game_server import GameServer
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.ports import free_port
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


def listed(server: AllowlistServer) -> set[str]:
    """Names of the players whom the running server lets in."""
    return set(server.listed.values())


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
    place.decide("approve", "dave")
    assert run(place).counts == {"added": 1}
    assert server.may_join("dave")
    with pytest.raises(WrongStatus):
        place.decide("approve", "dave")


def test_names_that_differ_in_case_are_two_players(place: ServiceHarness, server: AllowlistServer) -> None:
    """Vanilla takes the UUID of the name in small letters, whoever is meant."""
    run(place)
    place.register("Steve_X")
    server.type_add("Steve_X")
    run(place)
    assert place.user("Steve_X").status == "approved"
    run(place)
    assert server.may_join("Steve_X")


def test_with_the_server_off_the_file_is_enough(
    place: ServiceHarness, server: AllowlistServer, game_server: GameServer
) -> None:
    server.stop()
    game_server.write_properties(online_mode="false", white_list="true", server_port=free_port(), **server.properties)
    place.app.context.properties_files[""].refresh()
    place.approved("Alice")
    run(place)
    assert states() == {"alice": "listed"}
    server.start()
    assert server.may_join("Alice")


def test_without_a_console_it_waits_for_the_server_to_start_again(
    place: ServiceHarness, server: AllowlistServer, game_server: GameServer
) -> None:
    """Meanwhile the server may write its own list over ours: it is written again."""
    with socket.create_server(("127.0.0.1", 0)) as game:
        port = game.getsockname()[1]
        game_server.write_properties(online_mode="false", white_list="true", server_port=port)
        place.app.context.properties_files[""].refresh()
        place.approved("Alice")
        report = run(place)
        assert (report.counts, report.is_loaded) == ({"added": 1}, False)
        assert [(row.state, row.reason) for row in Allowed.select()] == [("add", "restart")]
        server.type_add("bob")
        run(place)
        place.decide("ban", "Alice")
        run(place)
        server.type_add("carla")  # its memory never had Alice, and has nobody else of ours
        run(place)
        assert states()["alice"] == "remove"
    run(place)  # now the port is closed: the server is off
    assert "alice" not in states()


@pytest.mark.parametrize("content", ["", "[{", "null"])
def test_a_broken_list_is_left_alone_and_told(place: ServiceHarness, server: AllowlistServer, content: str) -> None:
    for name in ("Alice", "Bob"):
        place.approved(name)
    run(place)
    server.file.write_text(content)
    report = run(place)
    assert "whitelist.json" in str(report.unavailable)
    assert server.file.read_text() == content
    server.answer("whitelist reload")  # which empties the list
    assert listed(server) == set()
    server.type_add("zoe")
    run(place)
    assert listed(server) == {"Alice", "Bob", "zoe"}
    assert {place.user(name).status for name in ("Alice", "Bob")} == {"approved"}


def test_an_emptied_list_takes_nobody_off(place: ServiceHarness, server: AllowlistServer) -> None:
    for name in ("Alice", "Bob"):
        place.approved(name)
    run(place)
    server.file.write_text("[]")
    run(place)
    assert listed(server) == {"Alice", "Bob"}


def test_many_changes_at_once_wait_for_a_person(place: ServiceHarness, server: AllowlistServer) -> None:
    """Thirty users who were approved while nobody kept the list; a new approval works all the same."""
    names = [f"Player_{number}" for number in range(30)]
    for name in names:
        place.approved(name)
    Allowed.delete().execute()
    plan = place.app.sync.plan_alone(allow_mass_changes=False, is_full=False, max_names=3)
    lines = list(describe_plan(plan, 3))
    assert "  30 users are added to the allowlist: Player_0, Player_1, Player_10 and 27 more" in lines
    assert not states(), "a plan writes nothing"
    report = run(place)
    assert (report.held_back, report.counts) == ({"added": 30}, {})
    assert place.app.sync.has_held_back_changes
    assert {(row.state, row.reason) for row in Allowed.select()} == {("add", "held_back")}
    place.approved("Alice")
    assert run(place).counts == {"added": 1}
    assert listed(server) == {"Alice"}
    assert run(place) == ListReport(), "what is held back makes no work"
    assert run(place, allow_mass_changes=True).counts == {"added": 30}
    assert listed(server) == {"Alice", *names}
    for name in names:
        server.type_remove(name)
    assert run(place).held_back == {"taken_off": 30}
    assert states() == dict.fromkeys(["alice", *map(str.lower, names)], "listed")
    assert Allowed.select().where(Allowed.shown_as == "waiting").count() == 30
    assert run(place, allow_mass_changes=True).counts == {"taken_off": 30}
    entry = AuditEntry.get(AuditEntry.action == "allowlist.taken_off")
    assert (entry.operator, entry.target, json.loads(str(entry.detail))["count"]) == ("game", None, 30)


def test_a_player_who_joined_decides_which_uuids_count(
    place: ServiceHarness, server: AllowlistServer, game_server: GameServer
) -> None:
    """The server's files say "offline", but behind the proxy players have those of their accounts."""
    account = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
    place.approved("Notch")
    joined = [{"name": "Notch", "uuid": account, "expiresOn": "2099-01-01 00:00:00 +0000"}]
    (game_server.directory / "usercache.json").write_text(json.dumps(joined))
    place.app.context.uuids.refresh()
    report = run(place)
    assert (report.doubt, report.counts) == ("Notch", {})
    assert [(row.state, row.reason) for row in Allowed.select()] == [("add", "uuid_in_doubt")]
    place.restart(allowlist__uuids="online")
    run(place)
    assert server.listed == {account: "Notch"}
