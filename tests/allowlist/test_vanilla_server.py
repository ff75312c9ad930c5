"""A server without plugins, from nothing to the moment Alice gets in, with the real process."""

import time
from pathlib import Path
from typing import Any

from tests.cli.test_game_dir import ALICES, OLIVIAS, BareDaemon, Place
from tests.support.authme.game_server import write_game_server
from tests.support.command_line import companion
from tests.support.daemon import Daemon
from tests.support.peers.allowlist_server import allowlist_server
from tests.support.peers.profile_server import ProfileServer
from tests.support.ports import free_port
from tests.support.watching import ask_until


def test_alice_registers_is_approved_and_gets_in(tmp_path: Path) -> None:
    """The approval itself wakes the run, and not the sync, which comes once a day here."""
    game = write_game_server(tmp_path / "game")
    with allowlist_server(game.directory) as server:
        server.is_strict = True
        game.write_properties(online_mode="false", white_list="true", enforce_whitelist="true", **server.properties)
        server.type_add("notch")
        daemon = BareDaemon(tmp_path / "daemon", game, sync_every="1 day")
        nobody: Any = None
        place = Place(game, nobody, nobody, daemon)
        daemon.start()
        try:
            in_game = "--game-dir", str(game.directory)
            create = ("users", "create", "Olivia", "--password-stdin", *in_game)
            made = companion(*create, typed=OLIVIAS + "\n", directory=daemon.directory)
            assert made.status == 0, made.errors
            assert place.register("Alice", ALICES).status == 201
            assert not server.may_join("Alice")
            place.approve("Alice")
            approved_at = time.monotonic()
            ask_until(lambda: server.may_join("Alice"), bool)
            assert time.monotonic() - approved_at < 2
            token = daemon.post("/api/admin/login", {"username": "Olivia", "password": OLIVIAS}).json["token"]
            server.online = {"Alice", "notch"}
            assert daemon.post("/api/admin/user/ban", {"username": "Alice"}, token=token).status == 200
            ask_until(lambda: server.may_join("Alice"), lambda may_join: not may_join)
            ask_until(lambda: set(server.online), lambda online: online == {"notch"})
            server.type_remove("notch")
            answer = daemon.post("/api/admin/sync", {}, token=token).json
            assert (answer["enabled"], answer["success"]) == (True, True)
            removed = {"allowlist": "removed"}
            page = ask_until(
                lambda: daemon.get("/api/admin/users", removed, token=token).json["users"],
                bool,  # a run for the ban may have been under way, which another one follows
            )
            assert [(user["username"], user["allowlist"]) for user in page] == [("notch", "removed")]
            assert daemon.post("/api/admin/user/approve", {"username": "notch"}, token=token).status == 200
            ask_until(lambda: server.may_join("notch"), bool)

            def notch() -> dict[str, Any]:
                found: dict[str, Any] = daemon.get("/api/admin/user", {"username": "notch"}, token=token).json["user"]
                return found

            user = ask_until(notch, lambda found: found["allowlist"] == "listed")
            assert (user["gates"], user["listed"]["reason"]) == (["allowlist"], None)
            shown = companion("users", "list", "--allowlist", "listed", *in_game, directory=daemon.directory)
            assert "notch" in shown.output
            assert "Alice" not in shown.output
            assert daemon.get("/health/ready").json["allowlist"] == "up"
            figures = daemon.get("/metrics").text
            assert 'companion_allowlist_changes_total{kind="taken_off"} 1.0' in figures
            assert 'companion_allowlist_users{state="removed"} 0.0' in figures
            audits = daemon.get("/api/admin/audits", {"action": "allowlist.taken_off"}, token=token).json["audits"]
            assert [(entry["operator"], entry["target"]) for entry in audits] == [("game", "notch")]
        finally:
            daemon.stop()


def test_a_player_with_an_account_gets_in_once_mojang_knows_them(tmp_path: Path) -> None:
    account = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
    game = write_game_server(tmp_path / "game")
    with allowlist_server(game.directory) as server, ProfileServer() as mojang:
        mojang.accounts = {"Alice": account}
        game.write_properties(online_mode="true", white_list="true", **server.properties)
        daemon = BareDaemon(
            tmp_path / "daemon",
            game,
            sync_every="1 day",
            game_profiles_url=mojang.address,
            registration_approval="false",
            game_profiles="auto",
        )
        nobody: Any = None
        daemon.start()
        try:
            assert Place(game, nobody, nobody, daemon).register("alice", ALICES).status == 201
            ask_until(lambda: server.may_join("Alice", account), bool)
        finally:
            daemon.stop()


def test_a_server_that_is_elsewhere_is_told_over_its_console(tmp_path: Path) -> None:
    """Without its folder; the config says what the console cannot tell."""
    game = write_game_server(tmp_path / "game")
    with allowlist_server(game.directory) as server:
        server.is_online, server.profiles = True, {"alice": ("069a79f4-44e9-4726-a5be-fca90e38aaf5", "Alice")}
        console = {"rcon_host": "127.0.0.1", "rcon_port": server.port, "rcon_password": server.password}
        config: dict[str, Any] = {
            "server": {"port": free_port()},
            "game": {**console, "operators": ["Olivia"]},
            "allowlist": {"enabled": True},
            "sync": {"every": "200 ms"},
            "mail": {"backend": "folder", "folder": str(tmp_path / "mail"), "sender": "a@example.org"},
        }
        (tmp_path / "daemon").mkdir()
        daemon = Daemon(tmp_path / "daemon", config)
        checked = companion("check-config", "--config", str(daemon.config_file), directory=daemon.directory)
        assert checked.status != 0
        assert 'write "online" if server.properties has online-mode=true' in checked.output + checked.errors
        daemon.write_config({**config, "allowlist": {"enabled": True, "uuids": "online"}})
        daemon.start()
        try:
            create = ("users", "create", "Alice", "--password-stdin", "--config", str(daemon.config_file))
            made = companion(*create, typed=ALICES + "\n", directory=daemon.directory)
            assert made.status == 0, made.errors
            ask_until(lambda: set(server.listed.values()), lambda listed: listed == {"Alice"})
        finally:
            daemon.stop()
