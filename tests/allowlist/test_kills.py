"""SIGKILL at every point of a run of the allowlist, with a real process: the next run finds all that was wanted."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from plugin_bridge.server.rcon import RconConnection
from regsvc.database import failpoints
from regsvc.database.models import Allowed
from tests.support.authme.game_server import GameServer
from tests.support.manual_clock import ManualClock
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.services import MakeServices, Settings, open_app

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.support.services"])
MOST_POINTS = 60


def run_and_die(directory: Path, game: GameServer, given: Settings, point: int) -> None:
    """Run the sync in this process, which is killed at this point.

    Points are before and after each commit, sync to the disk, rename and answer of the console.
    """
    app, passed = open_app(game, directory, ManualClock(), given), 0
    send, sync, replace = RconConnection.execute, os.fsync, Path.replace

    def reach(_name: str = "") -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def between(function: Callable[..., Any], *arguments: Any) -> Any:
        reach()
        result = function(*arguments)
        reach()
        return result

    async def execute(console: RconConnection, command: str) -> str:
        reach()
        reply = await send(console, command)
        reach()
        return reply

    with (
        mock.patch.object(RconConnection, "execute", execute),
        mock.patch.object(os, "fsync", lambda file: between(sync, file)),
        mock.patch.object(Path, "replace", lambda path, target: between(replace, path, target)),
        mock.patch.object(failpoints, "reach", reach),
    ):
        app.sync.run_alone(allow_mass_changes=False)


@pytest.fixture
def server(game_server: GameServer) -> Iterator[AllowlistServer]:
    with allowlist_server(game_server.directory) as running:
        game_server.write_properties(online_mode="false", white_list="true", **running.properties)
        yield running


def test_a_kill_at_any_point_loses_nobody(make_services: MakeServices, server: AllowlistServer) -> None:
    """Before each kill a user is approved, another one banned, and an operator in the game adds and removes a guest."""
    place = make_services(authme__enabled=False)
    place.approved("user_0")
    server.type_add("guest_0")
    place.sync()
    for point in range(1, MOST_POINTS):
        place.approved(f"user_{point}")
        place.decide("ban", f"user_{point - 1}")
        server.type_add(f"guest_{point}")
        server.type_remove(f"guest_{point - 1}")
        process = PROCESSES.Process(target=run_and_die, args=(place.directory, place.game, place.given, point))
        process.start()
        process.join()
        assert f"guest_{point}" in {entry["name"] for entry in json.loads(server.file.read_text())}
        place.sync()
        place.sync()
        wanted = {f"user_{point}", f"guest_{point}"}
        assert set(server.listed.values()) == wanted, point
        states = {row.username_key: row.state for row in Allowed.select() if row.state != "taken_off"}
        assert states == dict.fromkeys(wanted, "listed"), point
        assert server.may_join(f"user_{point}")
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert 12 < point < MOST_POINTS - 1
