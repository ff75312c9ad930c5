"""Under which UUID players are put on the allowlist: as the game's own files tell, or as Mojang does."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.allowlist.profiles import Profiles
from regsvc.allowlist.run import ListReport
from regsvc.database.models import Allowed, User
from tests.support.authme.game_server import GameServer
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.peers.profile_server import ProfileServer
from tests.support.services import MakeServices, ServiceHarness

NOTCH = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
JEB = "853c80ef-3c37-49fd-aa49-938b674adae6"
STEVE_ON_BEDROCK = "00000000-0000-0000-0009-01f64f65c7c3"
VELOCITY = "proxies: {velocity: {enabled: true, online-mode: true}}"


@pytest.fixture
def server(game_server: GameServer) -> Iterator[AllowlistServer]:
    with allowlist_server(game_server.directory) as running:
        yield running


@pytest.fixture
def mojang() -> Iterator[ProfileServer]:
    with ProfileServer() as peer:
        peer.accounts = {"Notch": NOTCH, "jeb_": JEB}
        yield peer


class Place:
    """A game server without AuthMe, and its companion."""

    def __init__(
        self, make: MakeServices, game: GameServer, server: AllowlistServer, mojang: ProfileServer, **given: object
    ) -> None:
        self.game, self.server, self.mojang, self._make, self._given = game, server, mojang, make, given
        self.services: ServiceHarness

    def open(self, *, online: bool, is_strict: bool = False, **given: object) -> ServiceHarness:
        strict = "true" if is_strict else "false"
        self.game.write_properties(
            online_mode="true" if online else "false",
            white_list="true",
            enforce_whitelist=strict,
            **self.server.properties,
        )
        self.server.is_strict = is_strict
        self.services = self._make(
            authme__enabled=False, **{"game__profiles_url": f"{self.mojang.address}/users", **given}
        )
        return self.services

    def has_joined(self, **players: str) -> None:
        """`usercache.json`: names and UUIDs, the last one first; a leading `_` stands for Floodgate's dot."""
        entries = [{"name": name, "uuid": uuid} for name, uuid in players.items()]
        (self.game.directory / "usercache.json").write_text(json.dumps(entries))
        self.services.app.context.uuids.refresh()

    def run(self) -> ListReport:
        return self.services.sync().listed or ListReport()

    def look_up(self) -> None:
        """One round of look-ups, then the run that it wakes."""
        profiles = self.profiles()
        asyncio.run(profiles.look_up())
        self.services.app.profiles = profiles  # what it remembers
        self.run()

    def profiles(self) -> Profiles:
        app = self.services.app
        quick = timedelta(milliseconds=1)
        return Profiles(app.live, app.context.uuids, app.worker, lambda: None, self.services.clock, pause=quick)

    def waits(self) -> dict[str, str | None]:
        return {row.username_key: row.reason for row in Allowed.select().where(Allowed.state == "add")}


@pytest.fixture
def place(
    make_services: MakeServices, game_server: GameServer, server: AllowlistServer, mojang: ProfileServer
) -> Place:
    return Place(make_services, game_server, server, mojang)


def test_in_offline_mode_the_exact_name_of_the_user_gets_in(place: Place) -> None:
    """Steve_X and steve_x are two players to the game, and one user to us: the one as they registered."""
    place.open(online=False).approved("Steve_X")
    place.has_joined(steve_x=offline_uuid("steve_x"))  # before the list was turned on
    place.run()
    assert (place.server.may_join("Steve_X"), place.server.may_join("steve_x")) == (True, False)
    assert place.mojang.asked == []


@pytest.mark.every_database
def test_in_online_mode_mojang_tells_uuid_and_spelling(place: Place) -> None:
    services = place.open(online=True)
    services.approved("nOtCh")
    place.run()
    assert place.waits() == {"notch": "no_uuid"}
    place.look_up()
    assert place.server.listed == {NOTCH: "Notch"}
    place.look_up()
    assert place.mojang.asked == ["nOtCh"]
    services.decide("ban", "nOtCh")
    place.run()
    assert place.server.listed == {}


@pytest.mark.every_database
def test_an_entry_from_the_time_in_offline_mode_gets_the_uuid_that_joined(place: Place) -> None:
    place.server.file.write_text(json.dumps([{"name": "Notch", "uuid": offline_uuid("Notch")}]))
    place.open(online=True, allowlist__uuids="online").approved("Notch")
    place.run()
    assert (place.run().counts, place.server.listed) == ({}, {offline_uuid("Notch"): "Notch"})
    place.has_joined(Notch=NOTCH)
    place.run()
    assert place.server.listed == {NOTCH: "Notch"}


def test_an_account_that_changed_its_name_may_be_two_users(place: Place) -> None:
    """Each keeps the account on the list, as long as one of them may play."""
    services = place.open(online=True)
    services.approved("Notch")
    place.has_joined(Notch=NOTCH)
    place.run()
    services.approved("Markus")
    place.has_joined(Markus=NOTCH)
    assert place.run().refused == []
    assert (place.waits(), place.server.listed) == ({}, {NOTCH: "Markus"})
    services.decide("ban", "Notch")
    place.run()
    assert {row.username_key: row.state for row in Allowed.select()} == {"markus": "listed"}
    assert place.server.listed == {NOTCH: "Markus"}
    services.decide("delete", "Markus")
    place.run()
    assert place.server.listed == {}


def test_a_stranger_who_takes_over_a_name_stays_out(place: Place) -> None:
    """The game's cache names accounts that were only looked up, too."""
    services = place.open(online=True)
    services.approved("Notch")
    place.has_joined(Notch=NOTCH)
    place.run()
    place.has_joined(Notch=JEB)
    place.run()
    assert place.server.listed == {NOTCH: "Notch"}
    found = place.services.app.worker.run_here(place.profiles().find_uuids, {"Notch": "java"})
    assert found == {"Notch": NOTCH}, "for console commands"
    place.server.file.write_text("[]")
    services.approved("jeb_")
    place.run()
    assert place.server.listed == {NOTCH: "Notch"}


def test_a_bedrock_player_whom_floodgate_lists_without_a_name_is_known_once_they_joined(place: Place) -> None:
    services = place.open(online=True, bedrock__enabled=True)
    other = STEVE_ON_BEDROCK[:-1] + "4"
    listed = [{"uuid": uuid, "name": "unknown"} for uuid in (STEVE_ON_BEDROCK, other)]
    place.server.file.write_text(json.dumps(listed))
    place.run()
    assert services.find_user(".unknown") is None
    place.has_joined(**{".Steve": STEVE_ON_BEDROCK})
    assert place.run().counts == {"adopted": 1}
    assert [user.username for user in User.select()] == [".Steve"]
    services.decide("ban", ".Steve")
    place.run()
    assert json.loads(place.server.file.read_text()) == listed[1:]


def test_without_network_players_wait_and_nothing_is_lost(place: Place) -> None:
    place.open(online=True).approved("Notch")
    place.run()
    place.mojang.stop()
    place.look_up()
    assert (place.waits(), place.server.listed) == ({"notch": "no_uuid"}, {})
    place.mojang.start()
    place.look_up()
    assert place.server.listed == {NOTCH: "Notch"}


@pytest.mark.every_database
@pytest.mark.parametrize("status", [404, 204])
def test_a_name_without_an_account_is_told_and_asked_again_after_an_hour(place: Place, status: int) -> None:
    services = place.open(online=True)
    services.approved("Nobody")
    place.run()
    place.mojang.status = status
    place.look_up()
    place.run()
    place.look_up()
    assert (place.waits(), place.mojang.asked) == ({"nobody": "no_profile"}, ["Nobody"])
    place.mojang.status, place.mojang.accounts["Nobody"] = None, JEB
    services.clock.advance(minutes=61)
    place.look_up()
    assert place.server.listed == {JEB: "Nobody"}


@pytest.mark.parametrize("status", [429, 403])
def test_once_mojang_has_enough_it_is_left_alone(place: Place, status: int) -> None:
    services = place.open(online=True)
    for name in ("Notch", "jeb_"):
        services.approved(name)
    place.run()
    place.mojang.status = status
    profiles = place.profiles()
    asyncio.run(profiles.look_up())
    asyncio.run(profiles.look_up())
    assert len(place.mojang.asked) == 1
    assert set(place.waits()) == {"notch", "jeb_"}


def test_one_broken_answer_delays_no_other(place: Place) -> None:
    services = place.open(online=True)
    for name in ("Notch", "jeb_"):
        services.approved(name)
    place.run()
    place.mojang.accounts = {"notch": "nonsense", "jeb_": JEB}
    profiles = place.profiles()

    async def look_up_thrice() -> None:
        for _round in range(3):
            await profiles.look_up()

    asyncio.run(look_up_thrice())
    place.run()
    assert (place.server.listed, place.waits()) == ({JEB: "jeb_"}, {"notch": "no_uuid"})


def test_without_a_list_a_uuid_is_known_soon_after_it_was_asked_for(place: Place) -> None:
    """As console commands after decisions do."""
    app = place.open(online=True, allowlist__enabled=False).app
    profiles = place.profiles()
    players = {"Notch": "java", "Steve": "bedrock", ".Alex": None}
    assert app.worker.run_here(profiles.find_uuids, players) == {}
    asyncio.run(profiles.look_up())
    assert app.worker.run_here(profiles.find_uuids, players) == {"Notch": NOTCH}
    assert place.mojang.asked == ["Notch"]


def test_the_host_may_forbid_look_ups(place: Place) -> None:
    place.open(online=True, game__profiles=False).approved("Notch")
    place.run()
    place.look_up()
    assert (place.mojang.asked, place.waits()) == ([], {"notch": "no_uuid"})
    place.has_joined(Notch=NOTCH)
    place.run()
    assert place.server.listed == {NOTCH: "Notch"}


def test_behind_velocity_players_have_their_accounts_uuids(place: Place) -> None:
    (place.game.directory / "config").mkdir()
    (place.game.directory / "config" / "paper-global.yml").write_text(VELOCITY)
    services = place.open(online=False)
    for name in ("notch", "jeb_"):
        services.approved(name)
    place.has_joined(Notch=NOTCH)
    place.run()
    assert (place.server.listed, place.waits()) == ({NOTCH: "Notch"}, {"jeb_": "no_uuid"})
    place.look_up()
    assert place.server.listed == {NOTCH: "Notch", JEB: "jeb_"}


def test_behind_velocity_a_player_who_joined_otherwise_stops_it(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """The server was set up for forwarding, but its players do not come that way."""
    (place.game.directory / "config").mkdir()
    (place.game.directory / "config" / "paper-global.yml").write_text(VELOCITY)
    services = place.open(online=False)
    for name in ("Alice", "Notch"):
        services.approved(name)
    place.has_joined(Alice=offline_uuid("Alice"))
    assert place.run().doubt == "Alice"
    place.look_up()
    assert (place.server.listed, place.mojang.asked) == ({}, [])
    assert place.waits() == {"alice": "uuid_in_doubt", "notch": "uuid_in_doubt"}
    assert "Alice joined with a UUID that follows from their name" in caplog.text
    services.restart(allowlist__uuids="offline")
    place.run()
    assert place.server.may_join("Alice")
    assert place.server.may_join("Notch")


@pytest.mark.every_database
def test_a_bedrock_player_waits_until_they_are_known(place: Place) -> None:
    """Nothing is derived or looked up, and what an operator adds by name in the game does not let them in."""
    services = place.open(online=False, bedrock__enabled=True)
    services.register("Steve Smith", platform="bedrock", email="steve@example.org")
    place.run()
    place.server.type_add(".steve_smith")
    place.run()
    assert services.user(".Steve_Smith").status == "approved"
    place.run()
    place.look_up()
    assert (place.waits(), place.mojang.asked) == ({".steve_smith": "no_uuid"}, [])
    place.has_joined(**{".steve_smith": STEVE_ON_BEDROCK})
    place.run()
    assert place.server.may_join("", STEVE_ON_BEDROCK)
    assert place.waits() == {}


def test_a_bedrock_player_who_is_listed_by_gamertag_is_known(place: Place) -> None:
    place.server.file.write_text(json.dumps([{"uuid": STEVE_ON_BEDROCK, "name": "Steve Smith"}]))
    services = place.open(online=True, bedrock__enabled=True)
    services.register("Steve Smith", platform="bedrock", email="steve@example.org")
    place.run()
    assert services.user(".Steve_Smith").status == "approved"
    assert [row.uuid for row in Allowed.select()] == [STEVE_ON_BEDROCK]


@pytest.mark.every_database
def test_operators_are_on_the_list_where_the_server_would_kick_them(place: Place) -> None:
    """Olivia has no user; Mallory was banned here, which wins."""
    services = place.open(online=True, is_strict=True)
    ops = [
        {"uuid": NOTCH, "name": "Olivia", "level": 4},
        {"uuid": JEB, "name": "Mallory", "level": 4},
        {"name": "Nameless", "level": 1},
    ]
    services.approved("Mallory")
    services.decide("ban", "Mallory")
    (place.game.directory / "ops.json").write_text(json.dumps(ops))
    place.run()
    assert place.server.listed == {NOTCH: "Olivia"}
    assert place.run() == ListReport()
    assert services.find_user("Olivia") is None
    (place.game.directory / "ops.json").write_text("[]")
    place.run()
    assert place.server.listed == {}


def test_operators_need_no_entry_where_nobody_is_kicked(place: Place) -> None:
    place.open(online=True)
    (place.game.directory / "ops.json").write_text(json.dumps([{"uuid": NOTCH, "name": "Olivia", "level": 4}]))
    place.run()
    assert place.server.listed == {}
