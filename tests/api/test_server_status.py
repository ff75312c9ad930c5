"""GET /api/server/status: how the game server is. Nobody waits for it, and it is asked seldom."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.minecraft_server import Answer, MinecraftServer, dripping, endless, saying, silent
from tests.support.ports import free_port
from tests.support.stack import MakeVillage, Village
from tests.support.watching import ask_until

SILENCE = {
    "online": False,
    "players": {"online": None, "max": None},
    "version": None,
    "motd": None,
    "latencyMs": None,
}


@pytest.fixture(scope="module")
def game() -> Iterator[MinecraftServer]:
    with MinecraftServer() as server:
        yield server


@pytest.fixture(scope="module")
def village(make_village: MakeVillage, game: MinecraftServer) -> Village:
    return make_village(config={"game": {"address": game.address}})


def status(village: Village, token: str | None = None) -> dict[str, Any]:
    reply = village.get("/api/server/status", token=token)
    assert reply.status == 200
    told: dict[str, Any] = reply.json["data"]
    return told


def status_once_asked(village: Village, token: str | None = None) -> dict[str, Any]:
    """It is asked at the start; whoever comes before the answer is told that there was none yet."""
    return ask_until(lambda: status(village, token), lambda told: told["checkedAt"] is not None)


def test_a_stranger_is_told_how_it_is(village: Village) -> None:
    told = status_once_asked(village)
    assert told["online"] is True
    assert told["players"] == {"online": 2, "max": 20}
    assert (told["version"], told["motd"]) == ("Paper 1.21.4", "Oakvale – open to all")
    assert 0 <= told["latencyMs"] < 2000


def test_who_plays_is_for_those_who_are_logged_in(village: Village) -> None:
    for token in (village.user_token(village.pending("alice")), village.olivia()):
        assert status_once_asked(village, token)["players"]["list"] == ["Alice", "Bob"]
    assert village.get("/api/server/status", token="garbage").status == 401


def test_however_many_ask_the_game_is_asked_seldom(village: Village, game: MinecraftServer) -> None:
    status_once_asked(village)
    before = len(game.handshakes)
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        assert all(told["online"] for told in pool.map(lambda _n: status(village), range(200)))
    assert len(game.handshakes) - before <= 1 + (time.monotonic() - began) / 5


BAD_ANSWERS = {
    "silent": silent,
    "dripping": dripping,
    "endless": endless,
    "hanging up": saying(b""),
    "nonsense": saying(b"\xff" * 100),
}


@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_bad_game_server_is_offline_and_keeps_nobody_waiting(make_village: MakeVillage, answer: Answer) -> None:
    with MinecraftServer(answer=answer) as server:
        village = make_village(config={"game": {"address": server.address}})
        server.wait_for_handshakes(1)
        for _request in range(20):
            began = time.monotonic()
            told = status(village)
            assert time.monotonic() - began < 1
            del told["checkedAt"]
            assert told == SILENCE
        village.daemon.stop()


def test_nobody_is_there(make_village: MakeVillage) -> None:
    village = make_village(config={"game": {"address": f"127.0.0.1:{free_port()}"}})
    told = status_once_asked(village, village.olivia())
    assert told["online"] is False
    assert told["players"] == {"online": None, "max": None, "list": []}


def test_the_servers_own_file_tells_where_it_is(make_village: MakeVillage, game: MinecraftServer) -> None:
    village = make_village()
    village.game.write_properties(server_port=game.port)
    village.daemon.stop()
    village.daemon.start()
    assert status_once_asked(village)["online"] is True


def test_a_host_may_not_tell_where_the_game_is(make_village: MakeVillage) -> None:
    village = make_village(config={"game": {"directory": "", "operators": ["Olivia"]}, "authme": {"enabled": False}})
    told = status_once_asked(village)
    del told["checkedAt"]
    assert told == SILENCE


def test_an_address_that_is_none_stops_the_start(make_village: MakeVillage) -> None:
    with pytest.raises(AssertionError, match=r"\[game\] address = \"http://game\"") as failure:
        make_village(config={"game": {"address": "http://game"}})
    assert "play.example.org:25565" in str(failure.value)


def test_a_look_at_the_headers(village: Village) -> None:
    reply = village.daemon.request("HEAD", "/api/server/status")
    assert (reply.status, reply.body) == (200, b"")
    assert village.post("/api/server/status").status == 405
