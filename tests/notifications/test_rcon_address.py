"""Where the remote console is: the host's word first, then the server's own file, as it is at this moment."""

from pathlib import Path

import pytest

from plugin_bridge.server.rcon import RconAddress
from regsvc.config.loader import load_config
from regsvc.config.sections import GameSection
from regsvc.notifications.rcon.address import find_rcon_address

ON = "enable-rcon=true\nrcon.port=25580\nrcon.password=secret\n"


def game_of(folder: Path, **keys: object) -> GameSection:
    given = {"directory": str(folder), **keys}
    return load_config(None, {}, {f"game.{name}": value for name, value in given.items()}).game


def write(folder: Path, text: str) -> None:
    (folder / "server.properties").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        (ON, "127.0.0.1"),
        (ON + "server-ip=0.0.0.0\n", "127.0.0.1"),
        (ON + "server-ip=::\n", "::1"),
        (ON + "server-ip=192.0.2.7\n", "192.0.2.7"),
        (ON + "server-ip=192.0.2.7\nrcon.ip=127.0.0.1\n", "127.0.0.1"),
        (ON + "server-ip=192.0.2.7\nrcon.ip=0.0.0.0\n", "127.0.0.1"),
    ],
)
def test_the_servers_file_tells(text: str, host: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    assert find_rcon_address(game_of(tmp_path)) == RconAddress(host, 25580, "secret")


@pytest.mark.parametrize(
    "text", ["", "enable-rcon=false\nrcon.password=secret", "enable-rcon=true", "enable-rcon=true\nrcon.password="]
)
def test_what_the_server_does_not_open_is_off(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    assert find_rcon_address(game_of(tmp_path)) is None


def test_a_file_that_is_missing_is_off(tmp_path: Path) -> None:
    assert find_rcon_address(game_of(tmp_path)) is None
    assert find_rcon_address(GameSection()) is None


def test_the_host_may_switch_it_off(tmp_path: Path) -> None:
    write(tmp_path, ON)
    assert find_rcon_address(game_of(tmp_path, rcon=False)) is None


def test_the_hosts_word_goes_first(tmp_path: Path) -> None:
    write(tmp_path, ON)
    given = game_of(tmp_path, rcon_host="game.example.org", rcon_port=9, rcon_password="another")
    assert find_rcon_address(given) == RconAddress("game.example.org", 9, "another")


def test_a_host_without_the_file_says_everything(tmp_path: Path) -> None:
    given = game_of(tmp_path, rcon=True, rcon_host="192.0.2.7", rcon_password="secret")
    assert find_rcon_address(given) == RconAddress("192.0.2.7", 25575, "secret")


def test_a_change_shows_at_the_next_question(tmp_path: Path) -> None:
    write(tmp_path, ON)
    game = game_of(tmp_path)
    assert find_rcon_address(game) is not None
    write(tmp_path, ON.replace("true", "false"))
    assert find_rcon_address(game) is None


def test_the_password_does_not_show() -> None:
    assert "secret" not in repr(RconAddress("127.0.0.1", 25575, "secret"))
