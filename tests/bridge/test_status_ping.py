"""Server List Ping: replies of honest servers, and abuse by others."""

import asyncio
import json
import resource
import time
from typing import Any

import mcstatus
import pytest

from plugin_bridge.server.status_ping import (
    MAX_LISTED_PLAYERS,
    MAX_REPLY_BYTES,
    ServerStatus,
    ServerUnreachable,
    fetch_status,
    read_status,
)
from tests.support.peers.minecraft_server import (
    STATUS,
    Answer,
    Conversation,
    Handshake,
    MinecraftServer,
    dripping,
    endless,
    number,
    only_for,
    saying,
    silent,
    text,
    without_ping,
)
from tests.support.ports import free_port

SHORT = 0.3  # seconds


def ask(server: MinecraftServer, timeout: float = 5) -> ServerStatus:
    return asyncio.run(fetch_status("127.0.0.1", server.port, timeout))


def packet(content: bytes) -> bytes:
    return number(len(content)) + content


def test_an_honest_server_is_read() -> None:
    with MinecraftServer() as server:
        status = ask(server)
        assert server.handshakes == [Handshake("127.0.0.1", server.port, next_state=1)]
    assert (status.online, status.max) == (2, 20)
    assert status.players == (
        ("Alice", "4566e69f-c907-48ee-8d71-d7ba5aa00d20"),
        ("Bob", "7125ba8b-1c86-4508-b92b-b5c042ccfe2b"),
    )
    assert (status.version, status.motd) == ("Paper 1.21.4", "Oakvale – open to all")
    assert 0 < status.latency < 1


def test_the_games_own_clients_read_the_same() -> None:
    """The fake server speaks the protocol as an independent library knows it."""
    with MinecraftServer() as server:
        theirs, ours = mcstatus.JavaServer("127.0.0.1", server.port).status(), ask(server)
    assert theirs.players.sample is not None
    assert (theirs.players.online, theirs.players.max) == (ours.online, ours.max)
    assert tuple((player.name, player.id) for player in theirs.players.sample) == ours.players
    assert (theirs.version.name, theirs.motd.to_plain()) == (ours.version, ours.motd)


def test_a_proxy_that_hangs_up_before_the_ping_is_there_all_the_same() -> None:
    with MinecraftServer(answer=without_ping) as server:
        status = ask(server)
    assert status.online == 2
    assert status.latency > 0


@pytest.mark.parametrize(
    "refusal",
    [
        b"",
        packet(number(0) + text('{"text": "Outdated client! Please use 1.12.2"}')),
        packet(number(0) + text('"Outdated client! Please use 1.12.2"')),
        packet(number(0x1A) + text('{"text": "Outdated client! Please use 1.12.2"}')),
    ],
    ids=["hangs up", "a text", "a string", "a packet of the game"],
)
def test_a_server_that_refuses_who_names_no_version_is_asked_once_more(refusal: bytes) -> None:
    with MinecraftServer(answer=only_for(340, refusal)) as server:
        assert ask(server).online == 2
        assert [handshake.version for handshake in server.handshakes] == [-1, 340]


def test_a_server_that_refuses_any_version_tells_why() -> None:
    refusal = packet(number(0) + text('{"text": "§cOutdated client!"}'))
    with MinecraftServer(answer=only_for(47, refusal)) as server:
        with pytest.raises(ServerUnreachable, match="no status: Outdated client!"):
            ask(server)
        assert len(server.handshakes) == 2


def test_a_server_that_takes_its_time_to_refuse_gets_no_more_of_it() -> None:
    """The second question has what is left of the time."""

    def refuse_late(server: MinecraftServer, client: Conversation) -> None:
        server.is_over.wait(0.9 if len(server.handshakes) == 1 else 60)

    with MinecraftServer(answer=refuse_late) as server:
        began = time.monotonic()
        with pytest.raises(ServerUnreachable, match="in time"):
            ask(server, 1)
        assert len(server.handshakes) == 2
        assert time.monotonic() - began < 0.9 + 1


def test_nobody_listens() -> None:
    with pytest.raises(ServerUnreachable):
        asyncio.run(fetch_status("127.0.0.1", free_port(), 5))


@pytest.mark.parametrize("host", ["", "..", "no such host", "x" * 300, "\udc00"])
def test_an_impossible_host_is_silent(host: str) -> None:
    with pytest.raises(ServerUnreachable):
        asyncio.run(fetch_status(host, 1, 5))


@pytest.mark.parametrize("answer", [silent, dripping])
def test_a_slow_server_is_left_in_time(answer: Answer) -> None:
    with MinecraftServer(answer=answer) as server:
        began = time.monotonic()
        with pytest.raises(ServerUnreachable, match="in time"):
            ask(server, SHORT)
        assert time.monotonic() - began < SHORT + 30
        assert len(server.handshakes) == 1


def test_an_endless_answer_is_not_taken() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with MinecraftServer(answer=endless) as server, pytest.raises(ServerUnreachable, match="bytes"):
        ask(server)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024  # KiB


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\xff" * 100,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        number(MAX_REPLY_BYTES + 1),
        packet(number(1) + text("{}")),
        packet(number(0) + number(5) + b"{}"),
        packet(number(0) + text("{")),
        packet(number(0) + text("[]")),
        packet(number(0) + text("[" * 100_000)),
        packet(number(0) + number(2) + b"\xff\xfe"),
        packet(number(0) + b"\xff" * 9),
        packet(number(0) + text("1" * 10_000)),
    ],
)
def test_garbage_is_silence(data: bytes) -> None:
    with MinecraftServer(answer=saying(data)) as server, pytest.raises(ServerUnreachable):
        ask(server)


# --- Content of the reply ---


def read(**changes: Any) -> ServerStatus:
    return read_status(json.loads(json.dumps(STATUS | changes)), 0.1)


@pytest.mark.parametrize(
    ("description", "motd"),
    [
        ("A Minecraft Server", "A Minecraft Server"),
        ("§aGreen §lbold§r plain", "Green bold plain"),
        ("§x§f§f§0§0§0§0Red\nsecond line", "Red\nsecond line"),
        ("D&D, Rock&Roll & more", "D&D, Rock&Roll & more"),
        ("tail§", "tail"),
        ({"text": "hi", "color": "no such colour"}, "hi"),
        ({"extra": ["a", ["b", {"text": "c", "extra": [{"text": "d"}]}]]}, "abcd"),
        ([{"text": "one "}, "two"], "one two"),
        ({"translate": "multiplayer.motd"}, "multiplayer.motd"),
        ({"text": 5}, ""),
        (None, ""),
        (17, ""),
        ("\u202eevil\u0000\u001b[31m", "evil\ufffd[31m"),
        ("\ud800", "\ufffd"),
    ],
)
def test_the_greeting_is_plain_text(description: Any, motd: str) -> None:
    assert read(description=description).motd == motd


def test_a_greeting_without_an_end_has_one() -> None:
    nested: dict[str, Any] = {"text": "x"}
    for _level in range(400):
        nested = {"text": "x", "extra": [nested]}
    assert 1 < len(read(description=nested).motd) < 100
    assert len(read(description="x" * 30_000).motd) == 1000


@pytest.mark.parametrize(
    "players", [None, [], "many", {}, {"online": "2"}, {"online": -1, "max": 2**40}, {"online": True, "max": None}]
)
def test_odd_numbers_are_none(players: Any) -> None:
    status = read(players=players)
    assert (status.online, status.max, status.players) == (0, 0, ())


def test_names_are_plain_and_not_too_many() -> None:
    sample: list[Any] = [{"name": "§cAlice", "id": "<b>"}, {"name": ""}, {"id": "x"}, "Bob", {"name": "x" * 2000}]
    assert read(players={"online": 1, "sample": sample}).players == (("Alice", ""), ("x" * 1000, ""))
    crowd = [{"name": f"p{number}"} for number in range(5000)]
    assert len(read(players={"sample": crowd}).players) == MAX_LISTED_PLAYERS


@pytest.mark.parametrize("version", [None, "1.21", {"name": 5}, {}])
def test_an_odd_version_is_empty(version: Any) -> None:
    assert read(version=version).version == ""
