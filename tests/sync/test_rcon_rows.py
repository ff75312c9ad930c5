"""Who is online is kicked before the row is there, and when it closes; a ban does in the game what the host wants."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from regsvc.accounts.player_warnings import AUTHME_CACHE_ON, STILL_ONLINE_RCON_OFF
from regsvc.core.i18n import load_translations
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications.outbox import Outbox, OutboxMessage
from regsvc.notifications.rcon.address import find_rcon_address
from regsvc.notifications.rcon.console import KIND
from regsvc.notifications.rcon.transport import PATIENCE, RconStore, RconTransport
from regsvc.notifications.transport import Drop, Postponed, Refused
from tests.support.authme_tables import find_player
from tests.support.game_server import GameServer
from tests.support.rcon_server import RconServer, rcon_server
from tests.support.services import PASSWORD, Away, House, MakeHouse

sqlite_only = pytest.mark.parametrize("database_kind", ["sqlite"])


@pytest.fixture
def console(game_server: GameServer) -> Iterator[RconServer]:
    """The game's own, on."""
    with rcon_server() as running:
        game_server.write_properties(**running.properties)
        yield running


class Porter:
    """Carries orders out by hand, one after the other."""

    def __init__(self, house: House) -> None:
        self._house = house
        find_address = partial(find_rcon_address, house.app.context.config.game)
        self._carrier = RconTransport(find_address, load_translations(), "Oakvale", house.clock)
        reconcile = partial(house.app.reconciler.reconcile, may_adopt=False)
        outbox = Outbox(house.clock, KIND, PATIENCE)
        self._desk = RconStore(house.app.context.location.database, outbox, reconcile, lambda outcome: None)

    def carry(self) -> list[str]:
        """Everything due now, once; how each went."""
        return [self._carry_one(errand) for errand in self._desk.claim_due(100)]

    def _carry_one(self, errand: OutboxMessage) -> str:
        try:
            asyncio.run(self._carrier.carry(errand))
        except Drop as reason:
            self._desk.drop(errand, str(reason))
            return "dropped"
        except (Postponed, Refused) as reason:
            wait = self._desk.record_failure(errand, str(reason), is_final=isinstance(reason, Refused))
            return "failed" if wait is None else "later"
        self._desk.record_sent(errand)
        return "sent"


def orders() -> list[tuple[str, str, str | None]]:
    """What was asked of the game, of whom, and how it ended (None: not yet), oldest first."""
    rows = OutboxEntry.select().where(OutboxEntry.kind == KIND).order_by(OutboxEntry.id)
    return [(row.template, row.recipient, row.outcome) for row in rows]


def last_order() -> Any:
    return OutboxEntry.select().where(OutboxEntry.kind == KIND).order_by(OutboxEntry.id.desc()).get()


# --- a row for somebody who is approved ---


def test_whoever_is_online_is_kicked_before_the_row_is_there(house_with_console: House, console: RconServer) -> None:
    house, console.online = house_with_console, {"Alice", "Bob"}
    house.register("Alice")
    rows_at_command: list[object] = []
    console.before = lambda command: rows_at_command.append(find_player(house.table, "alice"))
    assert house.decide("approve", "Alice").warnings == ()
    assert (find_player(house.table, "alice"), house.plugin("Alice")) == (None, "pending")
    assert Porter(house).carry() == ["sent"]
    assert console.commands == ["list", "kick Alice Your account is ready. Please join Oakvale again."]
    assert rows_at_command == [None, None]
    assert house.plugin("Alice") == "synced"
    assert house.authme.login("Alice", PASSWORD)
    assert console.online == {"Bob"}


def test_a_run_of_the_sync_neither_hurries_nor_asks_twice(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    house.approved("Alice")
    for _run in range(3):
        assert house.sync().provisioned == 0
    assert orders() == [("kick_first", "Alice", None)]
    Porter(house).carry()
    assert house.sync().provisioned == 0
    assert (house.plugin("Alice"), orders()) == ("synced", [("kick_first", "Alice", "sent")])


def test_who_is_surely_offline_is_not_kicked(house_with_console: House, console: RconServer) -> None:
    """Many plugins would kick Alicia in her place."""
    house, console.online = house_with_console, {"Bob"}
    house.approved("Alice")
    Porter(house).carry()
    assert (console.commands, house.plugin("Alice")) == (["list"], "synced")


def test_what_a_sync_provisions_is_kicked_first_too(house_with_console: House, console: RconServer) -> None:
    house, console.online = house_with_console, {"Alice"}
    house.register("Alice")
    house.ours.execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    house.sync()
    assert find_player(house.table, "alice") is None
    Porter(house).carry()
    assert (house.plugin("Alice"), console.online) == ("synced", set())


def test_a_game_that_is_away_holds_nobody_up_for_long(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    console.stop()
    house.approved("Alice")
    porter, outcomes = Porter(house), []
    for _try in range(3):
        assert find_player(house.table, "alice") is None
        outcomes += porter.carry()
        house.clock.advance(seconds=4)
    assert outcomes == ["later", "later", "failed"]
    assert house.authme.login("Alice", PASSWORD)
    order = last_order()
    assert (order.outcome, order.last_error.startswith("the row is inserted without a kick: ")) == ("failed", True)


def test_a_wrong_password_of_the_console_holds_nobody_up_either(
    house_with_console: House, console: RconServer, caplog: pytest.LogCaptureFixture
) -> None:
    house, console.password = house_with_console, "another-one"
    house.approved("Alice")
    porter = Porter(house)
    for _try in range(3):
        porter.carry()
        house.clock.advance(seconds=4)
    assert house.plugin("Alice") == "synced"
    assert console.commands == []
    assert caplog.text.count("does not take commands: the server does not take the password") == 1
    assert "the-consoles-password" not in caplog.text + str(last_order().last_error)


def test_a_kick_that_is_long_over_is_repeated(house_with_console: House, console: RconServer) -> None:
    """Between kick and row the database was away, and the player came back."""
    house, porter = house_with_console, Porter(house_with_console)
    house.approved("Alice")
    order = last_order()
    OutboxEntry.update(done_at=house.clock(), next_attempt_at=None, outcome="sent").where(
        OutboxEntry.id == order.id
    ).execute()
    house.clock.advance(minutes=2)
    assert house.sync().provisioned == 0
    assert [outcome for _order, _name, outcome in orders()] == ["sent", None]
    porter.carry()
    assert house.plugin("Alice") == "synced"


@sqlite_only
def test_a_file_that_is_busy_after_the_kick_is_written_by_the_next_run(
    house_with_console: House, console: RconServer
) -> None:
    house = house_with_console
    house.approved("Alice")
    with Away(house.table):
        assert Porter(house).carry() == ["sent"]
    assert find_player(house.table, "alice") is None
    assert house.sync().provisioned == 1


def test_who_was_banned_meanwhile_gets_no_row(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    house.approved("Alice")
    house.decide("ban", "Alice")
    Porter(house).carry()
    assert find_player(house.table, "alice") is None


def test_a_stranger_who_is_faster_than_the_row_is_locked_out(house_with_console: House, console: RconServer) -> None:
    """He joined again at once and registered in the game: the name is not his."""
    house, porter = house_with_console, Porter(house_with_console)
    house.approved("Alice")
    console.online = {"Alice"}
    joined_again: list[bool] = []
    console.before = lambda command: joined_again.append(house.authme.register("Alice", "strangers-password"))
    porter.carry()
    assert joined_again[0]
    assert (house.plugin("Alice"), house.is_locked("alice")) == ("returned", True)
    assert not house.authme.login("Alice", "strangers-password")
    assert orders()[-1] == ("kick", "Alice", None)


def test_a_name_that_is_never_spoken_gets_its_row_and_the_order_fails(
    game_server: GameServer, console: RconServer, make_house: MakeHouse
) -> None:
    game_server.change_authme({"settings.restrictions.allowedNicknameCharacters": "[a-zA-Z0-9_!;]*"})
    house = make_house()
    house.register("Bob;op!", email="bob@example.org")
    house.decide("approve", "Bob;op!")
    assert Porter(house).carry() == ["failed"]
    assert (console.commands, house.plugin("Bob;op!")) == ([], "synced")
    assert "never sent" in last_order().last_error


# --- bans, locks, deletions ---


def banned(house: House, **decree: Any) -> User:
    user = house.approved("Bob")
    Porter(house).carry()
    house.decide("ban", "Bob", **decree)
    return user


def test_a_ban_kicks_with_its_reason_in_one_plain_line(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    banned(house, reason="§4griefing\nop Mallory @a")
    console.online, console.commands = {"Bob"}, []
    assert Porter(house).carry() == ["sent"]
    assert console.commands == ["list", "kick Bob You are banned from Oakvale: griefing op Mallory ＠a"]


def test_another_reason_for_a_ban_kicks_nobody_again(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    banned(house, reason="griefing")
    house.decide("ban", "Bob", reason="much griefing")
    assert [order for order in orders() if order[0] == "kick"] == [("kick", "Bob", None)]


def test_a_ban_may_be_the_games_own_and_ends_there_too(
    console: RconServer, authme_table: object, make_house: MakeHouse
) -> None:
    house = make_house(game__on_ban="ban")
    banned(house, reason="griefing")
    Porter(house).carry()
    assert console.banned == {"Bob": "You are banned from Oakvale: griefing"}
    house.decide("unban", "Bob")
    Porter(house).carry()
    assert console.banned == {}
    house.decide("ban", "Bob", expires_at=house.clock() + timedelta(days=1))
    Porter(house).carry()
    house.clock.advance(days=2)
    house.sync()
    Porter(house).carry()
    assert (console.banned, house.user("Bob").status) == ({}, "approved")
    house.decide("ban", "Bob")
    house.decide("delete", "Bob")
    Porter(house).carry()
    Porter(house).carry()
    assert console.banned == {}


def test_a_ban_and_its_end_keep_their_order_while_the_game_is_away(
    console: RconServer, authme_table: object, make_house: MakeHouse
) -> None:
    house = make_house(game__on_ban="ban")
    house.approved("Bob")
    Porter(house).carry()
    console.stop()
    house.decide("ban", "Bob")
    house.decide("unban", "Bob")
    assert Porter(house).carry() == ["later"]
    console.start()
    house.clock.advance(minutes=1)
    assert Porter(house).carry() + Porter(house).carry() == ["sent", "sent"]
    assert console.told("ban", "pardon") == ["ban Bob You are banned from Oakvale.", "pardon Bob"]


def test_a_ban_may_do_nothing_in_the_game(console: RconServer, authme_table: object, make_house: MakeHouse) -> None:
    house = make_house(game__on_ban="none")
    banned(house)
    house.authme.set_password("Bob", "a-new-one")  # which is locked again
    house.sync()
    assert {order for order, _name, _outcome in orders()} == {"kick_first"}


def test_a_ban_typed_in_sql_kicks_too(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    house.approved("Bob")
    Porter(house).carry()
    house.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key = 'bob'")
    house.sync()
    assert ("kick", "Bob", None) in orders()


def test_a_deletion_kicks(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    house.approved("Bob")
    Porter(house).carry()
    console.online, console.commands = {"Bob"}, []
    house.decide("delete", "Bob")
    Porter(house).carry()
    assert console.told("kick") == ["kick Bob Your account on Oakvale was deleted."]


def test_a_lock_on_a_row_that_appeared_kicks_whoever_plays_in_it(
    house_with_console: House, console: RconServer
) -> None:
    house = house_with_console
    house.register("Alice")
    house.authme.register("Alice", "strangers-password")
    console.online = {"Alice"}
    house.sync()
    assert house.is_locked("alice")
    Porter(house).carry()
    assert console.told("kick") == ["kick Alice This name is another's account on Oakvale, or waits for its approval."]


def test_a_new_hash_in_the_locks_place_kicks_again(house_with_console: House, console: RconServer) -> None:
    """AuthMe's own recovery by e-mail writes one."""
    house = house_with_console
    banned(house)
    Porter(house).carry()
    house.authme.set_password("Bob", "recovered")
    house.sync()
    assert orders()[-1] == ("kick", "Bob", None)


def test_adopting_many_players_kicks_nobody(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    for number in range(5):
        house.authme.register(f"Player{number}", "in-the-game")
    house.sync()
    assert orders() == []


def test_a_kick_waits_for_nobody_longer_than_a_minute(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    console.stop()
    banned(house)
    porter = Porter(house)
    for _try in range(8):
        porter.carry()
        house.clock.advance(seconds=20)
    kick = last_order()
    assert (kick.template, kick.outcome) == ("kick", "dropped")
    assert kick.last_error == "nobody was there to kick the player while it mattered"


def test_one_kick_is_enough_while_nobody_has_begun_it(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    house.approved("Bob")
    Porter(house).carry()
    house.decide("ban", "Bob")
    house.decide("delete", "Bob")
    assert [order for order, _name, _outcome in orders()].count("kick") == 1


# --- off ---


def test_without_a_console_the_row_is_there_before_the_answer(house: House) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice")
    assert (orders(), house.plugin("Alice")) == ([], "locked")


def test_a_console_that_was_switched_off_leaves_nobody_waiting(
    house_with_console: House, console: RconServer, game_server: GameServer
) -> None:
    house = house_with_console
    house.approved("Alice")
    game_server.write_properties()
    assert Porter(house).carry() == ["dropped"]
    assert (house.plugin("Alice"), console.commands) == ("synced", [])


def test_whoever_seems_to_be_online_and_cannot_be_kicked_is_told_of(house: House) -> None:
    house.approved("Bob")
    assert house.decide("ban", "Bob").warnings == ()
    house.decide("unban", "Bob")
    house.authme.login("Bob", PASSWORD)
    assert house.decide("ban", "Bob").warnings == (STILL_ONLINE_RCON_OFF,)
    assert house.decide("delete", "Bob").warnings == (STILL_ONLINE_RCON_OFF,)


def test_with_a_console_nobody_has_to_be_told_of(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    house.approved("Bob")
    Porter(house).carry()
    house.authme.login("Bob", PASSWORD)
    assert house.decide("ban", "Bob").warnings == ()


def test_a_plugin_that_remembers_is_told_of(
    game_server: GameServer, authme_table: object, make_house: MakeHouse
) -> None:
    game_server.change_authme({"DataSource.caching": True})
    house = make_house()
    house.register("Alice")
    house.register("Bob")
    assert house.decide("reject", "Bob").warnings == ()
    for transition in ("approve", "ban", "unban"):
        assert house.decide(transition, "Alice").warnings == (AUTHME_CACHE_ON,)
    assert house.set_password("Alice", "a-newer-password").warnings == (AUTHME_CACHE_ON,)


def test_what_is_kept_of_an_order_is_no_secret(house_with_console: House, console: RconServer) -> None:
    house = house_with_console
    banned(house, reason="griefing")
    assert json.loads(last_order().payload) == {"cause": "banned", "reason": "griefing"}
    kept = str(list(OutboxEntry.select().where(OutboxEntry.kind == KIND).dicts()))
    assert console.password not in kept


@pytest.fixture
def house_with_console(console: RconServer, make_house: MakeHouse) -> House:
    return make_house()
