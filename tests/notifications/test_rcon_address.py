"""Address of the RCON console: from the config first, then from server.properties as it is now."""

from pathlib import Path

import pytest

from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.rcon import RconAddress
from regsvc.config.host_sections import GameSection
from regsvc.config.loader import load_config
from regsvc.notifications.rcon import find_rcon_address

ON = "enable-rcon=true\nrcon.port=25580\nrcon.password=secret\n"


def game_of(folder: Path, **keys: object) -> GameSection:
    given = {"directory": str(folder), **keys}
    return load_config(None, {}, {f"game.{name}": value for name, value in given.items()}).game


def find(game: GameSection) -> RconAddress | None:
    properties = PropertiesFile(game.server_properties_path)
    return find_rcon_address(game, properties.current)


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
    assert find(game_of(tmp_path)) == RconAddress(host, 25580, "secret")


@pytest.mark.parametrize(
    "text", ["", "enable-rcon=false\nrcon.password=secret", "enable-rcon=true", "enable-rcon=true\nrcon.password="]
)
def test_what_the_server_does_not_open_is_off(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    assert find(game_of(tmp_path)) is None


def test_a_file_that_is_missing_is_off(tmp_path: Path) -> None:
    assert find(game_of(tmp_path)) is None
    assert find(GameSection()) is None


def test_the_host_may_switch_it_off(tmp_path: Path) -> None:
    write(tmp_path, ON)
    assert find(game_of(tmp_path, rcon=False)) is None


def test_the_hosts_word_goes_first(tmp_path: Path) -> None:
    write(tmp_path, ON)
    given = game_of(tmp_path, rcon_host="game.example.org", rcon_port=9, rcon_password="another")
    assert find(given) == RconAddress("game.example.org", 9, "another")


def test_a_host_without_the_file_says_everything(tmp_path: Path) -> None:
    given = game_of(tmp_path, rcon=True, rcon_host="192.0.2.7", rcon_password="secret")
    assert find(given) == RconAddress("192.0.2.7", 25575, "secret")


def test_the_password_does_not_show() -> None:
    assert "secret" not in repr(RconAddress("127.0.0.1", 25575, "secret"))
