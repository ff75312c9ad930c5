"""The game server's status, and what players need to join."""

import time
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest

from regsvc.config.host_sections import GameSection, ServerSection
from regsvc.config.sections import BedrockSection, Config, Download
from regsvc.core.text import draw_qr_code
from regsvc.runtime.game_status import TIMEOUT
from tests.support.live_api import LiveApi, make_features
from tests.support.peers.minecraft_server import Answer, MinecraftServer, saying, silent
from tests.support.ports import free_port
from tests.support.stack import MakeStack, Stack
from tests.support.watching import ask_until

# GET /api/server/status: the game server's status. No request waits for it, and it is queried rarely.


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


# GET /api/server/join: what players need to join.


def ask(config: Config) -> dict[str, Any]:
    with LiveApi(make_features(config)) as api:
        payload: dict[str, Any] = api.request("GET", "/api/server/join").json["data"]
    return payload


def config_of(address: str, bedrock: str = "", *, is_on: bool = True) -> Config:
    return Config(
        server=ServerSection(name="Oakvale | best"),
        game=GameSection(address=address, versions="1.20 to 1.21.4"),
        bedrock=BedrockSection(enabled=is_on, address=bedrock),
    )


def test_where_both_editions_join() -> None:
    link = "minecraft:?addExternalServer=Oakvale%20%20%20best|play.example.org:19132"
    assert ask(config_of("play.example.org:25565")) == {
        "address": "play.example.org",
        "versions": "1.20 to 1.21.4",
        "bedrock": {"host": "play.example.org", "port": 19132, "link": link, "qrCode": draw_qr_code(link)},
    }


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [
        ("bedrock.example.org", "bedrock.example.org", 19132),
        ("bedrock.example.org:19133", "bedrock.example.org", 19133),
        ("[2001:db8::1]:19133", "2001:db8::1", 19133),
    ],
)
def test_bedrock_may_have_an_address_of_its_own(written: str, host: str, port: int) -> None:
    bedrock = ask(config_of("play.example.org", written))["bedrock"]
    assert (bedrock["host"], bedrock["port"]) == (host, port)
    assert bedrock["link"].endswith(f"|{written if ':' in written else f'{written}:19132'}")


def test_without_bedrock_there_is_no_code() -> None:
    assert ask(config_of("play.example.org", is_on=False))["bedrock"] is None


@pytest.mark.parametrize("address", ["", "127.0.0.1:25570"])
def test_an_address_that_players_cannot_use_is_not_told(address: str) -> None:
    payload = ask(config_of(address))
    assert (payload["address"], payload["bedrock"]) == (None, None)


def test_a_host_who_says_nothing() -> None:
    assert ask(Config()) == {"address": None, "versions": None, "bedrock": None}


# GET /api/downloads: the files a host offers.


def test_a_host_offers_files(make_stack: MakeStack) -> None:
    stack = make_stack(
        config={
            "downloads.client": {
                "name": "客户端",
                "description": "Everything in one",
                "version": "1.21.4",
                "size": "12 MB",
                "url": "https://files.example.org/client.zip",
                "icon": "/icons/client.png",
            },
            "downloads.pack": {"name": "Pack", "url": "/files/pack.zip"},
        }
    )
    reply = stack.get("/api/downloads")
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "resources": [
            {
                "id": "client",
                "name": "客户端",
                "description": "Everything in one",
                "version": "1.21.4",
                "size": "12 MB",
                "url": "https://files.example.org/client.zip",
                "icon": "/icons/client.png",
            },
            {
                "id": "pack",
                "name": "Pack",
                "description": "",
                "version": "",
                "size": "",
                "url": "/files/pack.zip",
                "icon": "",
            },
        ],
    }


def test_a_host_need_not_offer_any() -> None:
    with LiveApi(make_features(Config())) as api:
        assert api.request("GET", "/api/downloads").json == {"success": True, "resources": []}


def test_it_is_only_read() -> None:
    downloads = MappingProxyType({"client": Download(name="Client", url="/client.zip")})
    with LiveApi(make_features(Config(downloads=downloads))) as api:
        head = api.request("HEAD", "/api/downloads")
        assert (head.status, head.content) == (200, b"")
        assert api.request("POST", "/api/downloads").json["code"] == "method_not_allowed"
        assert api.request("GET", "/api/downloads", headers={"Authorization": "Bearer no"}).status == 401
