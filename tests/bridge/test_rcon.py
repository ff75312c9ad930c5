"""RCON protocol: replies of real servers, and of peers that are none."""

import asyncio
import struct
import time
from collections.abc import Iterator

import aiomcrcon  # type: ignore[import-untyped]
import pytest

from plugin_bridge.server.rcon import MAX_COMMAND_BYTES, RconAddress, RconError, open_rcon
from tests.support.peers.rcon_server import HOST, PASSWORD, RconServer, packed, rcon_server


@pytest.fixture
def server() -> Iterator[RconServer]:
    with rcon_server() as running:
        yield running


def address_of(server: RconServer, password: str = PASSWORD) -> RconAddress:
    return RconAddress(HOST, server.port, password)


def ask(server: RconServer, *commands: str, password: str = PASSWORD, timeout: float = 5.0) -> list[str]:
    async def talk() -> list[str]:
        async with open_rcon(address_of(server, password), timeout) as console:
            return [await console.execute(command) for command in commands]

    return asyncio.run(talk())


async def ask_with_the_library(server: RconServer, *commands: str) -> list[str]:
    async with aiomcrcon.Client(HOST, server.port, PASSWORD) as client:
        return [(await client.send_cmd(command))[0] for command in commands]


def test_it_asks_and_gets_answers_in_order(server: RconServer) -> None:
    server.online = {"Alice", "Bob"}
    answers = ask(server, "list", "kick Bob Come back later", "list", "dance")
    assert answers == [
        "There are 2 of a max of 20 players online: Alice, Bob",
        "Kicked Bob: Come back later",
        "There are 1 of a max of 20 players online: Alice",
        "Unknown or incomplete command, see below for error",
    ]
    assert server.logins == 1


def test_another_client_gets_the_same_answers(server: RconServer) -> None:
    server.online = {"Alice", "Bob"}
    commands = ["list", "kick Bob 再见", "list"]
    theirs = asyncio.run(ask_with_the_library(server, *commands))
    server.online.add("Bob")
    assert ask(server, *commands) == theirs


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 8192, 20_000])
def test_a_long_answer_comes_whole_and_the_next_one_is_the_next_ones(server: RconServer, length: int) -> None:
    server.answers["help"] = "".join(chr(ord("a") + number % 26) for number in range(length))
    assert ask(server, "help", "list") == [server.answers["help"], "There are 0 of a max of 20 players online: "]


def test_pieces_are_counted_in_characters_by_the_server(server: RconServer) -> None:
    server.answers["help"] = "玩" * 5000
    assert ask(server, "help", "list")[0] == "玩" * 5000


def test_the_library_takes_the_rest_of_a_long_answer_for_the_next_one(server: RconServer) -> None:
    """The reason not to use it. It does not compare packet ids or bound a length that the peer announces, either."""
    server.answers["help"] = "a" * 5000
    assert asyncio.run(ask_with_the_library(server, "help", "list")) == ["a" * 4096, "a" * 904]


def test_answers_may_come_byte_by_byte(server: RconServer) -> None:
    server.byte_by_byte = True
    server.answers["help"] = "b" * 5000
    assert ask(server, "help", "list") == ["b" * 5000, "There are 0 of a max of 20 players online: "]


def test_a_wrong_password_is_told_without_repeating_it(server: RconServer) -> None:
    with pytest.raises(RconError, match="password") as refused:
        ask(server, "list", password="wrong-secret")
    assert "wrong-secret" not in str(refused.value)
    assert "wrong-secret" not in repr(address_of(server, "wrong-secret"))
    assert server.commands == []


def test_a_server_may_answer_a_login_twice(server: RconServer) -> None:
    server.login_raw = packed(1, 0, "") + packed(1, 2, "")
    ask(server)
    assert server.logins == 1


def test_nobody_listens(server: RconServer) -> None:
    server.stop()
    with pytest.raises(RconError, match="cannot be reached"):
        ask(server, "list")


def test_a_name_that_no_resolver_knows() -> None:
    async def talk() -> None:
        async with open_rcon(RconAddress("no-such-host.invalid", 25575, PASSWORD)):
            pass

    with pytest.raises(RconError, match="cannot be reached"):
        asyncio.run(talk())


def test_a_server_that_says_nothing_is_left_in_time(server: RconServer) -> None:
    server.is_slow = True
    began = time.monotonic()
    with pytest.raises(RconError, match="in time"):
        ask(server, "list", timeout=0.3)
    assert time.monotonic() - began < 30


def test_a_server_that_dribbles_is_left_in_time(server: RconServer) -> None:
    """Each byte arrives in time; the whole does not."""
    server.raw = packed(2, 0, "half")[:-1]
    with pytest.raises(RconError, match="in time"):
        ask(server, "list", timeout=0.3)


GARBAGE = {
    "a web server": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a length of two gigabytes": struct.pack("<i", 2**31 - 1) + b"x" * 64,
    "a negative length": struct.pack("<i", -5),
    "a length without room for a head": struct.pack("<i", 9) + b"x" * 9,
    "no NULs at the end": struct.pack("<iii", 12, 2, 0) + b"text",
    "an answer to another question": packed(77, 0, "There are 0 of a max of 20 players online: "),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_what_is_no_console_is_left_at_once(server: RconServer, what: str) -> None:
    server.raw = GARBAGE[what]
    with pytest.raises(RconError, match="the peer"):
        ask(server, "list")
    server.login_raw = GARBAGE[what]
    with pytest.raises(RconError, match="the peer"):
        ask(server)


def test_an_answer_without_end_is_left(server: RconServer) -> None:
    server.answers["help"] = "a" * 300_000
    with pytest.raises(RconError, match="too long"):
        ask(server, "help")


def test_a_connection_that_closes_is_told(server: RconServer) -> None:
    server.before = lambda command: server.hang_up()
    with pytest.raises(RconError, match="closed before the answer"):
        ask(server, "list")


@pytest.mark.parametrize("command", ["kick Bob\nop Mallory", "say \0", "kick\rBob", "a" * (MAX_COMMAND_BYTES + 1)])
def test_no_command_has_two_lines_or_more_than_the_server_takes(server: RconServer, command: str) -> None:
    with pytest.raises(ValueError, match="one short line"):
        ask(server, command)
    assert server.commands == []


def test_the_longest_command_arrives_whole(server: RconServer) -> None:
    ask(server, "a" * MAX_COMMAND_BYTES)
    assert server.commands == ["a" * MAX_COMMAND_BYTES]
