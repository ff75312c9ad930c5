"""Cached status of the game server, which is pinged rarely."""

import asyncio
import logging
import time
from datetime import timedelta
from pathlib import Path

import pytest

from plugin_bridge.server.files import ServerFileError
from regsvc.core.addresses import GameAddress, find_game_address, parse_game_address, public_game_address
from regsvc.runtime.game_status import GameStatus, LastStatus
from tests.support.authme.game_server import GameServer
from tests.support.manual_clock import ManualClock
from tests.support.peers.minecraft_server import MinecraftServer, silent
from tests.support.ports import free_port

ALWAYS_FRESH = timedelta(hours=1)
NEVER_FRESH = timedelta(0)


def status_of(
    server: MinecraftServer,
    clock: ManualClock,
    fresh: timedelta = ALWAYS_FRESH,
    timeout: timedelta = timedelta(seconds=30),
) -> GameStatus:
    address = GameAddress("127.0.0.1", server.port)
    return GameStatus(lambda: address, clock, max_age=fresh, timeout=timeout)


# --- Pings ---


async def test_the_first_to_ask_does_not_wait_and_the_next_one_knows(clock: ManualClock) -> None:
    with MinecraftServer() as server:
        game = status_of(server, clock)
        first = game.last_status()
        await game.refresh()
        second = game.last_status()
    assert first == LastStatus(None, None)
    assert second.status is not None
    assert second.at == clock()
    assert len(server.handshakes) == 1


async def test_a_thousand_who_ask_make_one_ping(clock: ManualClock) -> None:
    with MinecraftServer() as server:
        game = status_of(server, clock)
        for _request in range(1000):
            game.last_status()
        await asyncio.gather(*(game.refresh() for _request in range(100)))
        for _request in range(1000):
            game.last_status()
        assert len(server.handshakes) == 1


async def test_who_is_told_something_old_has_it_asked_anew(clock: ManualClock) -> None:
    with MinecraftServer() as server:
        game = status_of(server, clock, NEVER_FRESH)
        await game.refresh()
        server.status["players"] = {"online": 17, "max": 20}
        clock.advance(seconds=6)
        old = game.last_status()
        await game.refresh()
        new = game.last_status()
    assert old.status is not None
    assert new.status is not None
    assert (old.status.online, new.status.online) == (2, 17)
    assert len(server.handshakes) == 2


async def test_nobody_waits_for_a_silent_server(clock: ManualClock) -> None:
    with MinecraftServer(answer=silent) as server:
        game = status_of(server, clock, timeout=timedelta(milliseconds=300))
        ping = asyncio.create_task(game.refresh())
        began = time.monotonic()
        for _request in range(100):
            game.last_status()
            await asyncio.sleep(0)
        seconds, heard = time.monotonic() - began, await ping
        server.wait_for_handshakes(1)
    assert seconds < 15, "waiting for each of the pings would take 30 s"
    assert heard == LastStatus(None, clock())
    assert len(server.handshakes) == 1


async def test_who_hangs_up_does_not_take_the_answer_from_others(clock: ManualClock) -> None:
    with MinecraftServer() as server:
        game = status_of(server, clock)
        impatient, patient = (asyncio.create_task(game.refresh()) for _caller in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).status is not None


async def test_it_comes_and_goes(clock: ManualClock) -> None:
    port = free_port()
    game = GameStatus(lambda: GameAddress("127.0.0.1", port), clock, max_age=NEVER_FRESH)
    assert (await game.refresh()).status is None
    with MinecraftServer(port=port):
        assert (await game.refresh()).status is not None
    assert (await game.refresh()).status is None


async def test_without_an_address_nobody_is_asked(clock: ManualClock) -> None:
    assert await GameStatus(lambda: None, clock).refresh() == LastStatus(None, clock())


async def test_a_bug_is_told_and_the_server_silent(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    def find() -> GameAddress:
        raise RuntimeError("hunter2")

    with caplog.at_level(logging.ERROR):
        assert (await GameStatus(find, clock).refresh()).status is None
    assert "RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


# --- The address ---


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("play.example.org", ("play.example.org", 25565)),
        ("play.example.org:25570", ("play.example.org", 25570)),
        ("192.0.2.1:1", ("192.0.2.1", 1)),
        ("[2001:db8::1]", ("2001:db8::1", 25565)),
        ("[::1]:65535", ("::1", 65535)),
        (" localhost ", ("localhost", 25565)),
    ],
)
def test_an_address_is_written_as_players_do(written: str, address: tuple[str, int]) -> None:
    assert parse_game_address(written) == address


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("play.example.org:25565", "play.example.org"),
        ("play.example.org:25570", "play.example.org:25570"),
        ("[2001:db8::1]:25565", "2001:db8::1"),
        ("[2001:db8::1]:25570", "[2001:db8::1]:25570"),
        ("192.0.2.1", "192.0.2.1"),
        ("127.0.0.1:25570", None),
        ("localhost", None),
        ("[::1]", None),
        ("0.0.0.0", None),
        ("", None),
    ],
)
def test_players_are_told_what_they_can_join(written: str, shown: str | None) -> None:
    assert public_game_address(written) == shown


@pytest.mark.parametrize(
    "written", ["", ":25565", "a:0", "a:65536", "a:b", "[::1", "[a]", "http://a/", "a b", "u@a", "a:1:2"]
)
def test_what_is_no_address_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match=r"play\.example\.org"):
        parse_game_address(written)


@pytest.mark.parametrize(
    ("server_ip", "host"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("192.0.2.5", "192.0.2.5")],
)
def test_the_servers_own_file_tells_where_it_listens(game_server: GameServer, server_ip: str, host: str) -> None:
    game_server.write_properties(server_ip=server_ip, server_port=25599)
    assert find_game_address("", game_server.properties_file) == (host, 25599)


def test_the_config_comes_first(game_server: GameServer) -> None:
    assert find_game_address("play.example.org:1", game_server.properties_file) == ("play.example.org", 1)


def test_a_host_may_tell_neither(tmp_path: Path) -> None:
    assert find_game_address("", None) is None
    with pytest.raises(ServerFileError):
        find_game_address("", tmp_path / "server.properties")


async def test_a_missing_file_is_a_silent_server(clock: ManualClock, tmp_path: Path) -> None:
    game = GameStatus(lambda: find_game_address("", tmp_path / "server.properties"), clock)
    assert await game.refresh() == LastStatus(None, clock())
