"""RCON of a running daemon: kicks in time, kicks before rows, and nothing is delayed by it."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from regsvc.database.failpoints import VARIABLE
from tests.support.our_tables import ago, our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.rcon_server import RconServer, rcon_server
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until, scrape

pytestmark = pytest.mark.one_database("mariadb")

MakeStack = Callable[..., Stack]


@pytest.fixture
def console() -> Iterator[RconServer]:
    with rcon_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "mariadb"])
def make_played(request: pytest.FixtureRequest, tmp_path: Path, console: RconServer) -> Iterator[MakeStack]:
    """Starts a stack whose game has RCON enabled; keys of `game` may be given."""
    server: MariaDBServer | None = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    stacks: list[Stack] = []

    def make(**game: object) -> Stack:
        environment = {VARIABLE: str(tmp_path / "kill-at")}
        stack = Stack(
            request.param,
            tmp_path,
            server,
            config={"game": game, "server": {"contact": "https://discord.gg/example"}},
            properties=console.properties,
            environment=environment,
        )
        stacks.append(stack.__enter__())
        return stack

    yield make
    for stack in stacks:
        stack.__exit__(None, None, None)


def orders(stack: Stack) -> list[dict[str, Any]]:
    return our_database(stack).query("SELECT * FROM regsvc_outbox WHERE kind = 'rcon' ORDER BY id")


def plugin(stack: Stack, person: Person) -> str:
    return str(stack.user(person)["plugin"])


def synced(stack: Stack, person: Person) -> None:
    """Waits until the row exists."""
    ask_until(partial(plugin, stack, person), lambda state: state == "synced")


def test_olivia_bans_bob_who_is_online_and_he_is_out(make_played: MakeStack, console: RconServer) -> None:
    stack = make_played()
    bob = stack.approved("bob")
    synced(stack, bob)
    console.online = {bob.name, "Carol"}
    stack.decides("ban", bob, reason="griefing\r\nop Mallory")
    assert console.wait_for("kick") == [
        f"kick {bob.name} You are banned from Game server: griefing op Mallory"
        " – You can reach the team here: https://discord.gg/example"
    ]
    assert console.online == {"Carol"}
    ask_until(lambda: scrape(stack.daemon).of("companion_console_commands_total", outcome="sent"), lambda n: n >= 2)


@pytest.mark.parametrize("on_ban", ["kick", "ban"])
@pytest.mark.parametrize("is_marked", [True, False], ids=["marked as online", "not marked"])
def test_bob_reads_why_he_is_banned(make_played: MakeStack, console: RconServer, on_ban: str, is_marked: bool) -> None:
    """Whether AuthMe has marked him as online, so that the lock of his row has him kicked, too, or not."""
    stack = make_played(on_ban=on_ban)
    bob = stack.approved("bob")
    synced(stack, bob)
    if is_marked:
        assert stack.authme.login(bob.name, bob.password)
    console.online = {bob.name, "Carol"}
    stack.decides("ban", bob, reason="griefing")
    console.wait_for(on_ban)
    ask_until(lambda: [order for order in orders(stack) if order["outcome"] is None], lambda waiting: not waiting)
    assert "griefing" in console.goodbyes.pop(bob.name)
    assert (console.online, console.goodbyes) == ({"Carol"}, {})
    if on_ban == "ban":
        assert "griefing" in console.banned[bob.name]
        assert console.received("ban", "pardon") == console.received("ban")


def test_who_gets_in_while_banned_is_put_out_with_the_reason(make_played: MakeStack, console: RconServer) -> None:
    """AuthMe's console set a password, and the sync locks the row again."""
    stack = make_played()
    bob = stack.approved("bob")
    synced(stack, bob)
    stack.decides("ban", bob, reason="griefing")
    stack.authme.set_password(bob.name, "newer-one")
    assert stack.authme.login(bob.name, "newer-one")
    console.wait_for("list", count=2)  # the ban's kick was not needed
    console.online = {bob.name}
    stack.sync()
    console.wait_for("kick")
    assert "griefing" in console.goodbyes[bob.name]


def test_a_ban_of_who_is_offline_kicks_nobody(make_played: MakeStack, console: RconServer) -> None:
    stack = make_played(on_ban="ban")
    bob = stack.approved("bob")
    synced(stack, bob)
    console.online = {"Carol"}
    stack.decides("ban", bob, reason="griefing")
    console.wait_for("ban")
    assert console.received("kick") == []


def test_a_console_that_moves_is_found_without_a_restart(make_played: MakeStack, console: RconServer) -> None:
    stack = make_played()
    bob = stack.approved("bob")
    synced(stack, bob)
    with rcon_server() as elsewhere:
        elsewhere.online = {bob.name}
        stack.game.write_properties(**{**console.properties, "enable_rcon": "false"})
        assert stack.daemon.wait_for_log("server.properties has changed; now in effect: enable-rcon")
        stack.decides("ban", bob)
        assert [order["template"] for order in orders(stack)] == ["kick_first"]
        stack.game.write_properties(**elsewhere.properties)
        assert stack.daemon.wait_for_log("now in effect: enable-rcon, rcon.port")
        stack.decides("delete", bob)
        elsewhere.wait_for("kick")


@pytest.mark.every_database
@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_kill_between_approval_kick_and_row_leaves_nobody_without(
    make_played: MakeStack, console: RconServer, tmp_path: Path, number: int
) -> None:
    stack = make_played()
    alice = stack.pending("alice")
    stack.olivia()
    console.online = {alice.name}
    (tmp_path / "kill-at").write_text(f"after commit:{number}", "utf-8")
    with contextlib.suppress(OSError, HTTPException):  # the process may die before its answer
        stack.decide("approve", alice)
    stack.daemon.wait_for_end()
    (tmp_path / "kill-at").unlink()
    is_approved = our_database(stack).query("SELECT status FROM regsvc_user WHERE username_key = ?", (alice.key,))
    our_database(stack).execute(
        "UPDATE regsvc_outbox SET next_attempt_at = ? WHERE next_attempt_at IS NOT NULL", (ago(seconds=1),)
    )
    stack.daemon.start()
    if is_approved[0]["status"] != "approved":
        stack.decides("approve", alice)
    synced(stack, alice)
    assert alice.name not in console.online
    assert stack.authme.login(alice.name, alice.password)


def test_a_game_that_is_away_delays_a_row_by_seconds_and_requests_not_at_all(
    make_played: MakeStack, console: RconServer
) -> None:
    """R4, R42"""
    stack = make_played()
    console.stop()
    alice = stack.approved("alice")
    assert plugin(stack, alice) in ("pending", "synced")
    synced(stack, alice)
    [order] = orders(stack)
    assert (order["outcome"], order["attempts"]) == ("failed", 3)
    assert "the row is inserted without a kick" in order["last_error"]
    assert stack.daemon.wait_for_log("the game's RCON console cannot be used")


def test_a_server_that_hangs_holds_up_no_other(make_played: MakeStack, console: RconServer) -> None:
    """Many players of a network are banned while one of its servers answers nobody."""
    with rcon_server() as survival:
        other = {"rcon_host": "127.0.0.1", "rcon_port": survival.port, "rcon_password": survival.password}
        stack = make_played(server=[{"name": "survival", **other}])
        people = [stack.approved("bob") for _number in range(6)]
        for person in people:
            synced(stack, person)
        console.online, survival.online = {person.name for person in people}, {person.name for person in people}
        survival.is_slow = True
        for person in people:
            stack.decides("ban", person)
        assert len(console.wait_for("kick", count=len(people))) == len(people)
        assert console.online == set()
        assert stack.daemon.wait_for_log("the RCON console of survival cannot be used")
        survival.stop()
        survival.is_slow = False
        survival.start()
        assert len(survival.wait_for("kick", count=len(people))) == len(people)
        assert len(console.received("kick")) == len(people)


def test_a_console_that_never_answers_holds_up_no_request_and_no_mail(
    make_played: MakeStack, console: RconServer
) -> None:
    stack = make_played()
    console.is_slow = True
    alice = stack.pending("alice")
    stack.decides("approve", alice)
    stack.smtp.wait_for(alice.email, 2)
    console.stop()


def test_the_password_of_the_console_stands_in_no_log_and_no_table(make_played: MakeStack, console: RconServer) -> None:
    """R23"""
    stack = make_played()
    stack.game.write_properties(**{**console.properties, "rcon_password": "a-wrong-password"})
    alice = stack.approved("alice")
    synced(stack, alice)
    stack.daemon.stop()
    seen = "\n".join([*stack.daemon.log, *stack.daemon.output, str(orders(stack))])
    assert console.password not in seen
    assert "a-wrong-password" not in seen
    assert (console.logins, console.commands) == (3, [])
