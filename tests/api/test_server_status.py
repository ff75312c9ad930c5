"""GET /api/server/status: the game server's status. No request waits for it, and it is queried rarely."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from regsvc.runtime.game_status import TIMEOUT
from tests.support.peers.minecraft_server import Answer, MinecraftServer, saying, silent
from tests.support.ports import free_port
from tests.support.stack import MakeStack, Stack
from tests.support.watching import ask_until

NO_REPLY = {
    "online": False,
    "players": {"online": None, "max": None},
    "version": None,
    "motd": None,
    "latencyMs": None,
    "statusHidden": False,
}


@pytest.fixture(scope="module")
def game() -> Iterator[MinecraftServer]:
    with MinecraftServer() as server:
        yield server


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, game: MinecraftServer) -> Stack:
    return make_stack(config={"game": {"address": game.address}})


def status(stack: Stack, token: str | None = None) -> dict[str, Any]:
    reply = stack.get("/api/server/status", token=token)
    assert reply.status == 200
    payload: dict[str, Any] = reply.json["data"]
    return payload


def status_once_asked(stack: Stack, token: str | None = None) -> dict[str, Any]:
    """The server is queried at startup; earlier requests see that there was no answer yet."""
    return ask_until(lambda: status(stack, token), lambda payload: payload["checkedAt"] is not None)


def test_an_anonymous_client_gets_the_status(stack: Stack) -> None:
    payload = status_once_asked(stack)
    assert payload["online"] is True
    assert payload["players"] == {"online": 2, "max": 20}
    assert (payload["version"], payload["motd"]) == ("Paper 1.21.4", "Oakvale – open to all")
    assert 0 <= payload["latencyMs"] < 2000


def test_who_plays_is_for_those_who_are_logged_in(stack: Stack) -> None:
    for token in (stack.user_token(stack.pending("alice")), stack.olivia()):
        assert status_once_asked(stack, token)["players"]["list"] == ["Alice", "Bob"]
    assert stack.get("/api/server/status", token="garbage").status == 401


def test_of_several_servers_each_is_shown_by_name(make_stack: MakeStack, game: MinecraftServer, stack: Stack) -> None:
    with MinecraftServer() as survival:
        servers = [
            {"name": "survival", "address": survival.address, "rcon_host": "127.0.0.1", "rcon_password": "a-secret"},
            {"name": "skyblock", "address": f"127.0.0.1:{free_port()}", "directory": "/srv/skyblock"},
            {"name": "console only", "rcon_host": "127.0.0.1", "rcon_password": "a-secret"},
        ]
        network = make_stack(config={"game": {"address": game.address, "name": "lobby", "server": servers}})
        payload = ask_until(
            lambda: status(network), lambda payload: all(server["checkedAt"] for server in payload["servers"])
        )
        network.daemon.stop()
    shown = [(server["name"], server["online"], server["players"]["online"]) for server in payload["servers"]]
    assert shown == [("lobby", True, 2), ("survival", True, 2), ("skyblock", False, None)]
    assert (payload["online"], payload["servers"][0]["version"]) == (True, "Paper 1.21.4")
    assert "list" not in payload["servers"][1]["players"]
    assert "servers" not in status(stack)


@pytest.mark.parametrize("answer", [silent, saying(b"\xff" * 100)], ids=["silent", "nonsense"])
def test_a_bad_game_server_is_offline_and_keeps_nobody_waiting(make_stack: MakeStack, answer: Answer) -> None:
    with MinecraftServer(answer=answer) as server:
        stack = make_stack(config={"game": {"address": server.address}})
        server.wait_for_handshakes(1)
        for _request in range(20):
            began = time.monotonic()
            payload = status(stack)
            assert time.monotonic() - began < TIMEOUT.total_seconds()
            del payload["checkedAt"]
            assert payload == NO_REPLY
        stack.daemon.stop()


def test_the_servers_own_file_tells_where_it_is(make_stack: MakeStack, game: MinecraftServer) -> None:
    stack = make_stack()
    stack.game.write_properties(server_port=game.port)
    stack.daemon.stop()
    stack.daemon.start()
    assert status_once_asked(stack)["online"] is True


def test_a_server_that_is_set_to_give_no_answer_is_not_called_away(make_stack: MakeStack) -> None:
    stack = make_stack(config={"game": {"address": f"127.0.0.1:{free_port()}"}})
    payload = status_once_asked(stack, stack.olivia())
    assert (payload["online"], payload["statusHidden"]) == (False, False)
    assert payload["players"] == {"online": None, "max": None, "list": []}
    stack.game.write_properties(enable_status="false")
    payload = ask_until(lambda: status(stack), lambda payload: payload["statusHidden"])
    assert payload["online"] is False


def test_a_host_may_not_tell_where_the_game_is(make_stack: MakeStack) -> None:
    stack = make_stack(config={"game": {"directory": "", "operators": ["Olivia"]}, "authme": {"enabled": False}})
    payload = status_once_asked(stack)
    del payload["checkedAt"]
    assert payload == NO_REPLY
