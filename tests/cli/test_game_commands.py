"""`companion updates` and `companion game-status`, as a host runs them."""

from typing import Any

import pytest

from regsvc import __version__
from tests.conftest import MakeDaemon
from tests.support.authme.game_server import GameServer
from tests.support.authme.plugin_jars import write_jar
from tests.support.command_line import Finished, companion
from tests.support.peers.minecraft_server import MinecraftServer, saying
from tests.support.peers.release_feed import FeedReply, ReleaseFeed, release
from tests.support.ports import free_port

PAGE = "http://127.0.0.1/authme/6.0.1"


def run(daemon: MakeDaemon, command: str, config: dict[str, dict[str, Any]]) -> Finished:
    return companion(command, config=daemon(config).config_file)


def test_updates_tells_what_is_newer(daemon: MakeDaemon, game_server: GameServer) -> None:
    write_jar(game_server.directory / "plugins", "AuthMe.jar")
    with ReleaseFeed(release("6.0.1", PAGE)) as plugin, ReleaseFeed(release(__version__)) as own:
        config = {"updates": {"enabled": True, "plugin_url": plugin.address, "own_url": own.address}}
        finished = run(daemon, "updates", config)
    assert (finished.status, finished.output) == (
        0,
        f"companion: {__version__} installed, the newest version is {__version__}\n"
        f"AuthMe: 5.6.0-beta2 installed, the newest version is 6.0.1 ({PAGE})\n"
        "AuthMe 5.6.0-beta2 has a public hole, or is reported to have one: companion doctor says what to do\n",
    )


def test_updates_has_nothing_to_say_of_an_authme_without_a_public_hole(
    daemon: MakeDaemon, game_server: GameServer
) -> None:
    game_server.install_plugin("6.0.1")
    with ReleaseFeed(release("6.0.1")) as plugin:
        finished = run(daemon, "updates", {"updates": {"enabled": True, "plugin_url": plugin.address}})
    assert (finished.status, finished.output.splitlines()[1:]) == (
        0,
        ["AuthMe: 6.0.1 installed, the newest version is 6.0.1"],
    )


def test_updates_tells_why_it_does_not_know(daemon: MakeDaemon) -> None:
    with ReleaseFeed(FeedReply(404)) as plugin:
        finished = run(daemon, "updates", {"updates": {"enabled": True, "plugin_url": plugin.address}})
    assert finished.status == 1
    assert f"companion: {__version__} installed, no update feed is configured\n" in finished.output
    assert "AuthMe: unknown version installed, the newest version is unknown: " in finished.output
    assert "404" in finished.output


def test_updates_asks_nobody_where_that_is_switched_off(daemon: MakeDaemon) -> None:
    with ReleaseFeed(release("6.0.1")) as feed:
        finished = run(daemon, "updates", {"updates": {"enabled": False, "plugin_url": feed.address}})
        assert not feed.requests
    assert (finished.status, finished.output) == (0, "update checks are off: updates.enabled is false\n")


def test_game_status_tells_how_it_is(daemon: MakeDaemon) -> None:
    with MinecraftServer() as server:
        finished = run(daemon, "game-status", {"game": {"address": server.address}})
    assert finished.status == 0
    assert finished.output.startswith("online: 2 of 20 players, Paper 1.21.4, ")


@pytest.mark.parametrize("is_there", [True, False])
def test_game_status_tells_of_silence(daemon: MakeDaemon, is_there: bool) -> None:
    with MinecraftServer(answer=saying(b"?")) as server:
        port = server.port if is_there else free_port()
        finished = run(daemon, "game-status", {"game": {"address": f"127.0.0.1:{port}"}})
    assert (finished.status, finished.output) == (1, f"offline: no answer from 127.0.0.1:{port}\n")


def test_game_status_needs_to_know_where(daemon: MakeDaemon) -> None:
    finished = run(daemon, "game-status", {"game": {"directory": ""}})
    assert finished.status == 1
    assert "game.directory or game.address" in finished.output
