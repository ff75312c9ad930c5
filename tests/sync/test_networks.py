"""Several game servers that share one table: each gets every command, and none waits for another."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.accounts.access import AUTHME_CACHE_ON, STILL_ONLINE_RCON_OFF
from regsvc.database.models import OutboxEntry
from regsvc.notifications.rcon import KIND
from tests.support.authme.authme_tables import find_player
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.peers.rcon_server import RconServer, rcon_server
from tests.support.rcon_delivery import ManualDelivery
from tests.support.services import PASSWORD, MakeServices, ServiceHarness


@pytest.fixture
def console(game_server: GameServer) -> Iterator[RconServer]:
    """The console of the main game server, switched on."""
    with rcon_server() as running:
        game_server.write_properties(**running.properties)
        yield running


@pytest.fixture
def survival(tmp_path: Path) -> Iterator[tuple[GameServer, RconServer]]:
    """A second game server with a console; the first one has one, too."""
    game = write_game_server(tmp_path / "survival")
    with rcon_server() as running:
        game.write_properties(**running.properties)
        yield game, running


@pytest.fixture
def network(
    console: RconServer, survival: tuple[GameServer, RconServer], authme_table: object, make_services: MakeServices
) -> ServiceHarness:
    return make_services(**{"game.server.1.name": "survival", "game.server.1.directory": str(survival[0].directory)})


def outcomes() -> list[tuple[str, str, str | None]]:
    """Return command, server and end of each message, oldest first."""
    rows = OutboxEntry.select().where(OutboxEntry.kind == KIND).order_by(OutboxEntry.id)
    return [(row.template, json.loads(row.payload or "").get("server", "main"), row.outcome) for row in rows]


def test_a_row_waits_for_the_kicks_on_all_servers(
    network: ServiceHarness, console: RconServer, survival: tuple[GameServer, RconServer]
) -> None:
    lobby, other = console, survival[1]
    lobby.online, other.online = {"Bob"}, {"Alice"}
    rows_at_command: list[object] = []
    other.before = lambda command: rows_at_command.append(find_player(network.table, "alice"))
    network.approved("Alice")
    assert network.sync().provisioned == 0
    assert outcomes() == [("kick_first", "main", None), ("kick_first", "survival", None)]
    assert ManualDelivery(network).deliver_due() == ["sent", "sent"]
    assert (lobby.commands, lobby.online) == (["list"], {"Bob"})
    assert (other.commands[1][:10], other.online) == ("kick Alice", set())
    assert rows_at_command == [None, None]
    assert network.authme.login("Alice", PASSWORD)


def test_a_server_that_is_away_holds_up_no_other(
    network: ServiceHarness, console: RconServer, survival: tuple[GameServer, RconServer]
) -> None:
    lobby, other, delivery = console, survival[1], ManualDelivery(network)
    other.stop()
    network.approved("Bob")
    assert delivery.deliver_due() == ["sent", "later"]
    assert find_player(network.table, "bob") is None
    for _try in range(2):
        network.clock.advance(seconds=4)
        assert find_player(network.table, "bob") is None
        delivery.deliver_due()
    assert (network.plugin("Bob"), lobby.commands) == ("synced", ["list"])
    lobby.online = {"Bob"}
    network.decide("ban", "Bob")
    assert delivery.deliver_due() == ["sent", "later"]
    assert lobby.online == set()
    other.online = {"Bob"}
    other.start()
    network.clock.advance(seconds=4)
    assert delivery.deliver_due() == ["sent"]
    assert (other.online, len(lobby.received("kick"))) == (set(), 1)


def test_one_kick_that_is_long_over_is_repeated_alone(network: ServiceHarness, console: RconServer) -> None:
    delivery = ManualDelivery(network)
    network.approved("Alice")
    messages = delivery.claim()
    delivery.deliver(messages[0])
    network.clock.advance(minutes=2)
    delivery.deliver(messages[1])
    assert find_player(network.table, "alice") is None
    assert outcomes()[2:] == [("kick_first", "main", None)]
    delivery.deliver_due()
    assert network.plugin("Alice") == "synced"


def test_a_ban_in_the_game_and_its_end_keep_their_order_on_each_server(
    network: ServiceHarness, console: RconServer, survival: tuple[GameServer, RconServer]
) -> None:
    network.restart(game__on_ban="ban")
    lobby, other, delivery = console, survival[1], ManualDelivery(network)
    network.approved("Bob")
    delivery.deliver_due()
    other.stop()
    network.decide("ban", "Bob")
    network.decide("unban", "Bob")
    assert delivery.deliver_due() + delivery.deliver_due() == ["sent", "later", "sent"]
    assert lobby.received("ban", "pardon")[1:] == ["pardon Bob"]
    other.start()
    network.clock.advance(minutes=1)
    assert delivery.deliver_due() + delivery.deliver_due() == ["sent", "sent"]
    assert [command.split(" ")[0] for command in other.received("ban", "pardon")] == ["ban", "pardon"]


def test_a_server_that_was_renamed_or_removed_leaves_nobody_waiting(
    network: ServiceHarness, console: RconServer, survival: tuple[GameServer, RconServer]
) -> None:
    network.approved("Alice")
    network.restart(**{"game.server.1.name": "skyblock"})
    assert ManualDelivery(network).deliver_due() == ["sent", "dropped"]
    assert outcomes()[2:] == [("kick_first", "skyblock", None)]
    assert ManualDelivery(network).deliver_due() == ["sent"]
    assert network.plugin("Alice") == "synced"
    network.approved("Bob")
    ManualDelivery(network).deliver_due()
    network.decide("ban", "Bob")
    network.given = {name: value for name, value in network.given.items() if not name.startswith("game.server.")}
    network.restart()
    assert ManualDelivery(network).deliver_due() == ["sent", "dropped"]
    last = OutboxEntry.select().order_by(OutboxEntry.id.desc()).get()
    assert last.last_error == "the config has no game server skyblock any more"


def test_a_server_with_rcon_off_is_told_of_and_the_others_are_served(
    network: ServiceHarness, console: RconServer, survival: tuple[GameServer, RconServer]
) -> None:
    survival[0].write_properties()
    network.restart()
    network.approved("Bob")
    assert ManualDelivery(network).deliver_due() == ["sent"]
    assert network.authme.login("Bob", PASSWORD)
    assert network.decide("ban", "Bob").warnings == (STILL_ONLINE_RCON_OFF,)
    assert outcomes()[1:] == [("kick", "main", None)]


def test_an_authme_that_remembers_on_any_server_is_told_of(
    network: ServiceHarness, survival: tuple[GameServer, RconServer]
) -> None:
    network.register("Alice")
    survival[0].install_authme(network.table, {"DataSource.caching": True})
    network.restart()
    assert network.decide("approve", "Alice").warnings == (AUTHME_CACHE_ON,)
    survival[0].authme_config.write_text("DataSource: [", encoding="utf-8")
    network.restart()
    assert network.decide("ban", "Alice").warnings == ()
