"""Players online are kicked before their row is inserted or locked; a ban does in the game what the config says."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from regsvc.accounts.access import AUTHME_CACHE_ON, STILL_ONLINE_RCON_OFF
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications.rcon import KIND
from tests.support.authme.authme_tables import find_player
from tests.support.authme.game_server import GameServer
from tests.support.peers.rcon_server import RconServer, rcon_server
from tests.support.rcon_delivery import ManualDelivery
from tests.support.services import PASSWORD, Away, MakeServices, ServiceHarness

sqlite_only = pytest.mark.parametrize("database_kind", ["sqlite"])


@pytest.fixture
def console(game_server: GameServer) -> Iterator[RconServer]:
    """The game's console, switched on."""
    with rcon_server() as running:
        game_server.write_properties(**running.properties)
        yield running


@pytest.fixture
def services(console: RconServer, make_services: MakeServices) -> ServiceHarness:
    return make_services()


def orders() -> list[tuple[str, str, str | None]]:
    """Return command, player and end (None: not yet) of each message, oldest first."""
    rows = OutboxEntry.select().where(OutboxEntry.kind == KIND).order_by(OutboxEntry.id)
    return [(row.template, row.recipient, row.outcome) for row in rows]


def last_order() -> Any:
    return OutboxEntry.select().where(OutboxEntry.kind == KIND).order_by(OutboxEntry.id.desc()).get()


# --- rows of approved users ---


def test_whoever_is_online_is_kicked_before_the_row_is_there(services: ServiceHarness, console: RconServer) -> None:
    console.online = {"Alice", "Bob"}
    services.register("Alice")
    rows_at_command: list[object] = []
    console.before = lambda command: rows_at_command.append(find_player(services.table, "alice"))
    assert services.decide("approve", "Alice").warnings == ()
    assert (find_player(services.table, "alice"), services.plugin("Alice")) == (None, "pending")
    assert ManualDelivery(services).deliver_due() == ["sent"]
    assert console.commands == ["list", "kick Alice Your account is ready. Please join Oakvale again."]
    assert rows_at_command == [None, None]
    assert services.plugin("Alice") == "synced"
    assert services.authme.login("Alice", PASSWORD)
    assert console.online == {"Bob"}


def test_a_run_of_the_sync_neither_hurries_nor_asks_twice(services: ServiceHarness) -> None:
    services.approved("Alice")
    for _run in range(3):
        assert services.sync().provisioned == 0
    assert orders() == [("kick_first", "Alice", None)]
    ManualDelivery(services).deliver_due()
    assert services.sync().provisioned == 0
    assert (services.plugin("Alice"), orders()) == ("synced", [("kick_first", "Alice", "sent")])


def test_who_is_surely_offline_is_not_kicked(services: ServiceHarness, console: RconServer) -> None:
    """Many plugins would kick Alicia in her place."""
    console.online = {"Bob"}
    services.approved("Alice")
    ManualDelivery(services).deliver_due()
    assert (console.commands, services.plugin("Alice")) == (["list"], "synced")


def test_what_a_sync_provisions_is_kicked_first_too(services: ServiceHarness, console: RconServer) -> None:
    console.online = {"Alice"}
    services.register("Alice")
    services.ours.execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    services.sync()
    assert find_player(services.table, "alice") is None
    ManualDelivery(services).deliver_due()
    assert (services.plugin("Alice"), console.online) == ("synced", set())


def test_a_wrong_password_of_the_console_holds_nobody_up_either(
    services: ServiceHarness, console: RconServer, caplog: pytest.LogCaptureFixture
) -> None:
    console.password = "another-one"
    services.approved("Alice")
    delivery = ManualDelivery(services)
    for _try in range(3):
        delivery.deliver_due()
        services.clock.advance(seconds=4)
    assert services.plugin("Alice") == "synced"
    assert console.commands == []
    assert caplog.text.count("cannot be used: the server does not accept the password") == 1
    assert "the-consoles-password" not in caplog.text + str(last_order().last_error)


@pytest.mark.parametrize("minutes", [2, -120])
def test_a_kick_that_is_long_over_is_repeated(services: ServiceHarness, minutes: int) -> None:
    """Between kick and row the database was away, and the player came back; or the clock was set back."""
    delivery = ManualDelivery(services)
    services.approved("Alice")
    order = last_order()
    OutboxEntry.update(done_at=services.clock(), next_attempt_at=None, outcome="sent").where(
        OutboxEntry.id == order.id
    ).execute()
    services.clock.advance(minutes=minutes)
    assert services.sync().provisioned == 0
    assert [outcome for _order, _name, outcome in orders()] == ["sent", None]
    delivery.deliver_due()
    assert services.plugin("Alice") == "synced"


@sqlite_only
def test_a_file_that_is_busy_after_the_kick_is_written_by_the_next_run(services: ServiceHarness) -> None:
    services.approved("Alice")
    with Away(services.table):
        assert ManualDelivery(services).deliver_due() == ["sent"]
    assert find_player(services.table, "alice") is None
    assert services.sync().provisioned == 1


def test_who_was_banned_meanwhile_gets_no_row(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice")
    ManualDelivery(services).deliver_due()
    assert find_player(services.table, "alice") is None


def test_a_foreign_row_registered_before_ours_is_given_to_its_owner(
    services: ServiceHarness, console: RconServer
) -> None:
    delivery = ManualDelivery(services)
    services.approved("Alice")
    console.online = {"Alice"}
    joined_again: list[bool] = []
    console.before = lambda command: joined_again.append(services.authme.register("Alice", "foreign-password"))
    delivery.deliver_due()
    assert joined_again[0]
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("synced", False)
    assert not services.authme.login("Alice", "foreign-password")
    assert services.authme.login("Alice", PASSWORD)
    assert orders()[-1] == ("kick", "Alice", None)


def test_a_name_that_is_never_spoken_gets_its_row_and_the_order_fails(
    game_server: GameServer, console: RconServer, make_services: MakeServices
) -> None:
    game_server.change_authme({"settings.restrictions.allowedNicknameCharacters": "[a-zA-Z0-9_!;]*"})
    services = make_services()
    services.register("Bob;op!", email="bob@example.org")
    services.decide("approve", "Bob;op!")
    assert ManualDelivery(services).deliver_due() == ["failed"]
    assert (console.commands, services.plugin("Bob;op!")) == ([], "synced")
    assert "never sent" in last_order().last_error


# --- bans, locks, deletions ---


def banned(services: ServiceHarness, **details: Any) -> User:
    user = services.approved("Bob")
    ManualDelivery(services).deliver_due()
    services.decide("ban", "Bob", **details)
    return user


def test_another_reason_for_a_ban_kicks_nobody_again(services: ServiceHarness) -> None:
    banned(services, reason="griefing")
    services.decide("ban", "Bob", reason="much griefing")
    assert [order for order in orders() if order[0] == "kick"] == [("kick", "Bob", None)]


def test_a_ban_may_be_the_games_own_and_ends_there_too(
    console: RconServer, authme_table: object, make_services: MakeServices
) -> None:
    services = make_services(game__on_ban="ban")
    banned(services, reason="griefing")
    ManualDelivery(services).deliver_due()
    assert console.banned == {"Bob": "You are banned from Oakvale: griefing"}
    services.decide("unban", "Bob")
    ManualDelivery(services).deliver_due()
    assert console.banned == {}
    services.decide("ban", "Bob", expires_at=services.clock() + timedelta(days=1))
    ManualDelivery(services).deliver_due()
    services.clock.advance(days=2)
    services.sync()
    ManualDelivery(services).deliver_due()
    assert (console.banned, services.user("Bob").status) == ({}, "approved")
    services.decide("ban", "Bob")
    services.decide("delete", "Bob")
    ManualDelivery(services).deliver_due()
    ManualDelivery(services).deliver_due()
    assert console.banned == {}


def test_a_ban_may_do_nothing_in_the_game(
    console: RconServer, authme_table: object, make_services: MakeServices
) -> None:
    services = make_services(game__on_ban="none")
    banned(services)
    services.authme.set_password("Bob", "a-new-one")  # which is locked again
    services.sync()
    assert {order for order, _name, _outcome in orders()} == {"kick_first"}


def test_a_ban_typed_in_sql_kicks_too(services: ServiceHarness) -> None:
    services.approved("Bob")
    ManualDelivery(services).deliver_due()
    services.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key = 'bob'")
    services.sync()
    assert ("kick", "Bob", None) in orders()


def test_a_deletion_kicks(services: ServiceHarness, console: RconServer) -> None:
    services.approved("Bob")
    ManualDelivery(services).deliver_due()
    console.online, console.commands = {"Bob"}, []
    services.decide("delete", "Bob")
    ManualDelivery(services).deliver_due()
    assert console.received("kick") == ["kick Bob Your account on Oakvale was deleted."]


def test_a_lock_on_a_row_that_appeared_kicks_whoever_plays_in_it(services: ServiceHarness, console: RconServer) -> None:
    services.register("Alice")
    services.authme.register("Alice", "foreign-password")
    console.online = {"Alice"}
    services.sync()
    assert services.is_locked("alice")
    ManualDelivery(services).deliver_due()
    kick = "kick Alice On Oakvale, this name belongs to another account or is waiting for approval."
    assert console.received("kick") == [kick]


def test_a_new_hash_in_the_locks_place_kicks_again(services: ServiceHarness) -> None:
    """AuthMe's own recovery by e-mail writes one."""
    banned(services)
    ManualDelivery(services).deliver_due()
    services.authme.set_password("Bob", "recovered")
    services.sync()
    assert orders()[-1] == ("kick", "Bob", None)


def test_adopting_many_players_kicks_nobody(services: ServiceHarness) -> None:
    for number in range(5):
        services.authme.register(f"Player{number}", "in-the-game")
    services.sync()
    assert orders() == []


def test_a_kick_waits_for_nobody_longer_than_a_minute(services: ServiceHarness, console: RconServer) -> None:
    console.stop()
    banned(services)
    delivery = ManualDelivery(services)
    for _try in range(8):
        delivery.deliver_due()
        services.clock.advance(seconds=20)
    kick = last_order()
    assert (kick.template, kick.outcome) == ("kick", "dropped")
    assert kick.last_error == "the kick could not be sent while it mattered"


def test_one_kick_is_enough_while_nobody_has_begun_it(services: ServiceHarness) -> None:
    services.approved("Bob")
    ManualDelivery(services).deliver_due()
    services.decide("ban", "Bob")
    services.decide("delete", "Bob")
    assert [order for order, _name, _outcome in orders()].count("kick") == 1


# --- off ---


def test_without_a_console_the_row_is_there_before_the_answer(
    make_services: MakeServices, authme_table: object
) -> None:
    services = make_services()
    services.approved("Alice")
    services.decide("ban", "Alice")
    assert (orders(), services.plugin("Alice")) == ([], "locked")


def test_a_console_that_was_switched_off_leaves_nobody_waiting(
    services: ServiceHarness, console: RconServer, game_server: GameServer
) -> None:
    services.approved("Alice")
    game_server.write_properties()
    assert ManualDelivery(services).deliver_due() == ["dropped"]
    assert (services.plugin("Alice"), console.commands) == ("synced", [])


def test_whoever_seems_to_be_online_and_cannot_be_kicked_is_told_of(
    make_services: MakeServices, authme_table: object
) -> None:
    services = make_services()
    services.approved("Bob")
    assert services.decide("ban", "Bob").warnings == ()
    services.decide("unban", "Bob")
    services.authme.login("Bob", PASSWORD)
    assert services.decide("ban", "Bob").warnings == (STILL_ONLINE_RCON_OFF,)
    assert services.decide("delete", "Bob").warnings == (STILL_ONLINE_RCON_OFF,)


def test_with_a_console_nobody_has_to_be_told_of(services: ServiceHarness) -> None:
    services.approved("Bob")
    ManualDelivery(services).deliver_due()
    services.authme.login("Bob", PASSWORD)
    assert services.decide("ban", "Bob").warnings == ()


def test_a_plugin_that_remembers_is_told_of(
    game_server: GameServer, authme_table: object, make_services: MakeServices
) -> None:
    game_server.change_authme({"DataSource.caching": True})
    services = make_services()
    services.register("Alice")
    services.register("Bob")
    assert services.decide("reject", "Bob").warnings == ()
    for transition in ("approve", "ban", "unban"):
        assert services.decide(transition, "Alice").warnings == (AUTHME_CACHE_ON,)
    assert services.set_password("Alice", "a-newer-password").warnings == (AUTHME_CACHE_ON,)


def test_what_is_kept_of_an_order_is_no_secret(services: ServiceHarness, console: RconServer) -> None:
    banned(services, reason="griefing")
    assert json.loads(last_order().payload) == {"cause": "banned", "reason": "griefing"}
    kept = str(list(OutboxEntry.select().where(OutboxEntry.kind == KIND).dicts()))
    assert console.password not in kept


def test_no_decision_reads_the_servers_file(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugin_bridge.server.files.read_server_properties", None)
    monkeypatch.setattr("plugin_bridge.server.files.PropertiesFile.refresh", None)
    services.approved("Bob")
    services.decide("ban", "Bob")
    assert [order for order, _name, _outcome in orders()] == ["kick_first", "kick"]
