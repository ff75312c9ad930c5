"""Console commands of the host's own: they follow decisions, in order, and whatever happens to the game server."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from regsvc.database.models import ADD, REMOVE, TAKEN_OFF, Allowed, OutboxEntry
from regsvc.notifications.rcon import HOST
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.command_line import companion
from tests.support.our_tables import ago, our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.profile_server import ProfileServer
from tests.support.peers.rcon_server import RconServer, rcon_server
from tests.support.rcon_delivery import ManualDelivery
from tests.support.services import MakeServices, ServiceHarness
from tests.support.stack import Stack

pytestmark = pytest.mark.every_database

GIVE, REMOVE_GROUP = "lp user {uuid} parent add member", "lp user {uuid} parent remove member"
NOTCH = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
EVERY = {
    event: [f"/say {event} {{username}}", "say in {language}"]
    for event in ("approved", "rejected", "banned", "unbanned", "deleted", "reopened")
}


@pytest.fixture
def console(game_server: GameServer) -> Iterator[RconServer]:
    with rcon_server() as running:
        game_server.write_properties(online_mode="false", **running.properties)
        yield running


def deliver(services: ServiceHarness) -> list[str]:
    """Deliver until nothing is due; return how each attempt ended, without those of kicks."""
    delivery, ends = ManualDelivery(services), []
    while claimed := delivery.claim():
        for message in claimed:
            end = delivery.deliver(message)
            ends += [end] if message.template == HOST else []
    return ends


def sent() -> list[tuple[str, str | None, str | None]]:
    """Return player, end and error of each command of the host's own, oldest first."""
    rows = OutboxEntry.select().where(OutboxEntry.template == HOST).order_by(OutboxEntry.id)
    return [(row.recipient, row.outcome, row.last_error) for row in rows]


# --- which decisions ---


def test_each_decision_has_its_commands_once_and_in_their_order(
    console: RconServer, make_services: MakeServices
) -> None:
    place = make_services(game__commands=EVERY, game__on_ban="none")
    place.register("Alice")
    for transition in ("reject", "approve", "ban", "unban"):
        place.decide(transition, "Alice", is_silent=True)
    place.decide("delete", "Alice")
    place.register("Bob")
    tomorrow = place.clock() + timedelta(days=1)
    place.decide("ban", "Bob", expires_at=tomorrow)
    place.decide("ban", "Bob", reason="another reason, and the same ban", expires_at=tomorrow)
    assert deliver(place) == ["sent"] * 12
    place.clock.advance(days=1)
    place.sync()
    assert place.user("Bob").status == "pending"
    assert deliver(place) == ["sent"] * 2
    said = [line.removeprefix("say ") for line in console.received("say")]
    events = ["rejected", "approved", "banned", "unbanned", "deleted"]
    assert [line for line in said if "Alice" in line] == [f"{event} Alice" for event in events]
    assert [line for line in said if "Bob" in line] == ["banned Bob", "reopened Bob"]
    assert said.count("in en") == 7
    assert deliver(place) == []


def test_transitions_by_sql_count_and_adoptions_do_not(console: RconServer, make_services: MakeServices) -> None:
    place = make_services(game__commands=EVERY)
    place.authme.register("DAVE", "his-password")
    place.authme.register("Carol", "her-password")
    place.approved("Alice")
    place.sync()
    place.sync()
    assert place.user("Carol").origin == "adopted"
    place.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key IN ('alice', 'carol')")
    place.sync()
    place.ours.execute("DELETE FROM regsvc_user WHERE username_key IN ('alice', 'dave')")
    place.sync(allow_mass_changes=True)
    deliver(place)
    told = [line for line in console.received("say") if "in" not in line.split()]
    banned, deleted = ["say banned Alice", "say banned Carol"], ["say deleted Alice", "say deleted DAVE"]
    assert sorted(told) == ["say approved Alice", *banned, *deleted]
    assert told.index("say banned Alice") < told.index("say deleted Alice")


# --- the UUID ---


def test_a_command_waits_for_the_uuid_and_holds_up_that_player_alone(
    console: RconServer, game_server: GameServer, make_services: MakeServices
) -> None:
    """Behind a proxy with Minecraft accounts the game's files know whoever has joined."""
    (game_server.directory / "config").mkdir()
    proxy = "proxies: {velocity: {enabled: true, online-mode: true}}"
    (game_server.directory / "config" / "paper-global.yml").write_text(proxy)
    place = make_services(game__commands={"approved": [GIVE], "banned": ["say banned {username}"]})
    for name in ("Alice", "Carol"):
        place.approved(name)
    place.approved("Bob")
    place.decide("ban", "Alice")
    place.decide("ban", "Bob")
    Allowed.create(username_key="bob", username="Bob", uuid=NOTCH, state=REMOVE, since=place.clock())
    assert sorted(deliver(place)) == ["later", "later", "sent", "sent"]
    assert console.received("lp", "say") == [f"lp user {NOTCH} parent add member", "say banned Bob"]
    place.clock.advance(hours=12)
    known = [{"name": "Alice", "uuid": NOTCH[::-1].replace("-", "")}]
    (game_server.directory / "usercache.json").write_text(json.dumps(known))
    place.app.context.uuids.refresh()
    assert sorted(deliver(place)) == ["later", "sent", "sent"]
    alices = place.app.context.uuids.find("Alice")
    assert console.received("lp", "say")[2:] == [f"lp user {alices} parent add member", "say banned Alice"]
    place.clock.advance(hours=13)
    assert deliver(place) == ["failed"]
    assert sent()[1] == (
        "Carol",
        "failed",
        "the player's UUID is not known yet; it will be once they have joined the game",
    )


def test_mojangs_answer_counts_within_a_minute_also_after_an_outage_and_without_a_list(
    console: RconServer, game_server: GameServer, make_services: MakeServices
) -> None:
    """A Bedrock player has no such account: Floodgate's UUID is known once they have joined."""
    game_server.write_properties(online_mode="true", **console.properties)
    with ProfileServer() as mojang:
        mojang.accounts = {"Notch": NOTCH, "Steve": NOTCH}
        place = make_services(
            game__commands={"approved": [GIVE]}, game__profiles_url=f"{mojang.address}/users", bedrock__enabled=True
        )
        place.approved("Notch")
        place.register("Steve", platform="bedrock", email="steve@example.org")
        place.decide("approve", ".Steve")
        while place.clock() < place.user("Notch").created_at + timedelta(hours=1):
            assert set(deliver(place)) <= {"later"}
            place.clock.advance(minutes=5)
        deliver(place)
        asyncio.run(place.app.profiles.look_up())
        place.app.worker.run_here(place.app.console.hasten)
        place.clock.advance(seconds=40)
        assert "sent" in deliver(place)
        assert console.received("lp") == [f"lp user {NOTCH} parent add member"]
        assert mojang.asked == ["Notch"]
    on_bedrock = "00000000-0000-0000-0009-01f64f65c7c3"
    (game_server.directory / "usercache.json").write_text(json.dumps([{"name": ".Steve", "uuid": on_bedrock}]))
    place.app.context.uuids.refresh()
    place.app.worker.run_here(place.app.console.hasten)
    place.clock.advance(seconds=40)
    assert deliver(place) == ["sent"]
    assert console.received("lp")[1] == f"lp user {on_bedrock} parent add member"


def test_no_uuid_is_sent_that_another_file_contradicts(
    console: RconServer, game_server: GameServer, make_services: MakeServices
) -> None:
    """Bob once joined while the server was in online mode: nobody knows yet which UUID he will have."""
    known = [{"name": "Bob", "uuid": NOTCH}]
    (game_server.directory / "usercache.json").write_text(json.dumps(known))
    place = make_services(game__commands={"approved": [GIVE]})
    place.approved("Bob")
    assert deliver(place) == ["later"]
    game_server.write_properties(online_mode="true", **console.properties)
    place.app.context.properties_files[""].refresh()
    place.clock.advance(minutes=10)
    assert deliver(place) == ["sent"]
    assert console.received("lp") == [f"lp user {NOTCH} parent add member"]


def test_what_was_known_of_a_deleted_user_is_sent(console: RconServer, make_services: MakeServices) -> None:
    place = make_services(game__commands={"approved": [GIVE], "deleted": [REMOVE_GROUP]})
    place.approved("Alice")
    Allowed.create(username_key="alice", username="Alice", uuid=NOTCH, state="listed", since=place.clock())
    place.decide("delete", "Alice")
    Allowed.delete().execute()
    deliver(place)
    assert console.received("lp")[1] == f"lp user {NOTCH} parent remove member"


# --- consoles ---


def test_servers_that_are_away_get_them_later_each_once(
    console: RconServer, make_services: MakeServices, tmp_path: Path
) -> None:
    survival = write_game_server(tmp_path / "survival")
    with rcon_server() as other:
        survival.write_properties(**other.properties)
        other.stop()
        place = make_services(
            **{
                "game.commands": {"approved": ["say 1", GIVE], "banned": [REMOVE_GROUP]},
                "game.server.1.name": "survival",
                "game.server.1.directory": str(survival.directory),
            }
        )
        place.approved("Alice")
        place.decide("ban", "Alice")
        assert deliver(place) == ["sent", "later", "sent", "sent"]
        for _minutes in range(12):
            place.clock.advance(minutes=5)
            assert set(deliver(place)) <= {"later"}
        other.start()
        place.clock.advance(minutes=6)
        assert deliver(place) == ["sent"] * 3
        assert other.received("say", "lp") == console.received("say", "lp")
        assert [line.split()[-3:-1] for line in other.received("lp")] == [["parent", "add"], ["parent", "remove"]]
        assert {end for _name, end, _error in sent()} == {"sent"}


def test_a_command_that_the_server_never_answers_is_not_sent_for_a_day(
    console: RconServer, make_services: MakeServices
) -> None:
    unanswered: list[str] = []

    def hang_up(command: str) -> None:
        if command.startswith("lp"):
            unanswered.append(command)
            console.hang_up()

    console.before = hang_up
    place = make_services(game__commands={"approved": [GIVE, "say {username}"]})
    place.approved("Alice")
    for _minutes in range(20):
        deliver(place)
        place.clock.advance(minutes=1)
    assert (len(unanswered), console.received("say")) == (2, ["say Alice"])
    assert sent()[0] == (
        "Alice",
        "failed",
        "the command was sent, and may have run: the connection was closed before the answer",
    )


def test_who_is_put_back_on_the_list_gets_no_commands_twice(
    console: RconServer, game_server: GameServer, make_services: MakeServices
) -> None:
    game_server.write_properties(online_mode="false", white_list="true", **console.properties)
    place = make_services(authme__enabled=False, game__commands=EVERY)
    place.approved("Alice")
    place.sync()
    Allowed.update(state=TAKEN_OFF).execute()
    place.decide("approve", "Alice")
    assert [row.state for row in Allowed.select()] == [ADD]
    assert deliver(place) == ["sent"] * 2


def test_a_console_that_is_switched_off_for_an_hour_loses_none(
    console: RconServer, game_server: GameServer, make_services: MakeServices
) -> None:
    game_server.write_properties(**{**console.properties, "enable_rcon": "false"})
    place = make_services(game__commands={"approved": ["say {username}"]})
    place.approved("Alice")
    assert deliver(place) == ["later"]
    place.clock.advance(hours=1)
    game_server.write_properties(**console.properties)
    assert deliver(place) == ["sent"]
    assert console.received("say") == ["say Alice"]


def test_a_name_that_is_not_safe_is_refused_and_told(console: RconServer, make_services: MakeServices) -> None:
    place = make_services(game__commands={"banned": ["say {username}", "lp user {uuid} clear"]})
    place.authme.register("Steve+", "his-password")
    place.sync()
    place.decide("ban", "Steve+")
    assert sorted(deliver(place)) == ["failed", "sent"]
    assert console.received("say") == []
    assert len(console.received("lp")) == 1
    [failed] = [error for _name, end, error in sent() if end == "failed"]
    assert failed == "the username has characters that are never sent to the game's console"


def test_what_the_game_replies_is_kept_for_operators(
    console: RconServer, make_services: MakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    console.answers = {"lp": f"§aSet\r\n\x1b[31m member \x07‮{'x' * 600}"}
    place = make_services(game__commands={"approved": [GIVE], "banned": ["say {username}"]})
    place.approved("Alice")
    deliver(place)
    place.decide("ban", "Alice")
    details = place.app.worker.run_here(place.app.user_details.get, "Alice", lambda reason: reason)
    waiting, [known] = details.commands[0], details.commands[1:]
    assert (waiting.event, waiting.command, waiting.state, waiting.reply) == ("banned", "say Alice", "waiting", None)
    uuid = place.app.context.uuids.find("Alice")
    assert (known.event, known.command, known.server) == ("approved", f"lp user {uuid} parent add member", "")
    assert known.reply == f"Set member {'x' * 489}"
    assert "member" not in caplog.text


# --- the real process ---


@pytest.fixture(params=["sqlite", "mariadb"])
def played(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Stack, RconServer]]:
    """A stack whose host has commands, and its console."""
    server: MariaDBServer | None = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    commands = {"approved": [GIVE], "banned": [REMOVE_GROUP]}
    with rcon_server() as console:
        properties: dict[str, Any] = {"online_mode": "false", **console.properties}
        stack = Stack(request.param, tmp_path, server, config={"game": {"commands": commands}}, properties=properties)
        with stack:
            yield stack, console


def test_olivia_approves_and_the_group_is_given_also_over_a_crash(played: tuple[Stack, RconServer]) -> None:
    """Killed after the command was sent, and before that was confirmed: it runs again, and what follows comes after."""
    stack, console = played
    console.answers = {"lp": "§eDone"}
    bob = stack.approved("bob")
    [given] = console.wait_for("lp")
    assert given.endswith(" parent add member")
    shown = companion("users", "show", bob.name, config=stack.daemon.config_file)
    assert json.loads(shown.output)["commands"][0]["command"] == given
    reply = stack.get("/api/admin/user", {"username": bob.name}, token=stack.olivia())
    assert [(one["event"], one["command"]) for one in reply.json["user"]["commands"]] == [("approved", given)]

    alice = stack.pending("alice")
    console.before = lambda command: stack.daemon.send(SIGKILL) if command.startswith("lp") else None
    with contextlib.suppress(OSError, HTTPException):  # the process may die before its answer
        stack.decide("approve", alice)
    stack.daemon.wait_for_end()
    console.before = lambda command: None
    seen = len(console.wait_for("lp", count=2))
    our_database(stack).execute(
        "UPDATE regsvc_outbox SET next_attempt_at = ? WHERE next_attempt_at IS NOT NULL", (ago(seconds=1),)
    )
    stack.daemon.start()
    stack.decides("ban", alice)
    alices = [command.split()[-3:-1] for command in console.wait_for("lp", count=seen + 2)[1:]]
    assert alices == [["parent", "add"], ["parent", "add"], ["parent", "remove"]]
