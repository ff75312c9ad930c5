"""UUIDs of players before they join: facts from the game itself, and from what Paper and Spigot write."""

import json
from pathlib import Path

import pytest

from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.player_uuids import PlayerUuids, offline_uuid

NOTCH_OFFLINE = "b50ad385-829d-3141-a216-7e7d7539ba7f"
NOTCH = "069a79f4-44e9-4726-a5be-fca90e38aaf5"

VELOCITY = ("config/paper-global.yml", "proxies: {velocity: {enabled: true, online-mode: true, secret: a-secret}}")
OLD_VELOCITY = ("paper.yml", "settings: {velocity-support: {enabled: true, online-mode: true}}")
BUNGEECORD = ("spigot.yml", "settings: {bungeecord: true}")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """The folder of a server in offline mode."""
    (tmp_path / "config").mkdir()
    (tmp_path / "server.properties").write_text("online-mode=false\n", encoding="utf-8")
    return tmp_path


def uuids_of(server: Path) -> PlayerUuids:
    return PlayerUuids(server, PropertiesFile(server / "server.properties"))


def write(server: Path, *files: tuple[str, str]) -> None:
    for name, text in files:
        (server / name).write_text(text, encoding="utf-8")


# --- without a proxy ---


def test_notch_is_who_the_game_says(server: Path) -> None:
    assert uuids_of(server).find("Notch") == NOTCH_OFFLINE


def test_each_spelling_is_another_player() -> None:
    assert len({offline_uuid(name) for name in ("Notch", "notch", "NOTCH")}) == 3


@pytest.mark.parametrize("name", ["Alice", ".Steve_1", "x" * 16, "玩家"])
def test_it_is_a_uuid_of_the_third_kind_in_lower_case(name: str) -> None:
    found = offline_uuid(name)
    assert (len(found), found[14], found == found.lower()) == (36, "3", True)
    assert found[19] in "89ab"


@pytest.mark.parametrize("text", ["online-mode=true\n", "", "motd=online-mode=false\n"])
def test_in_online_mode_the_name_tells_nothing(server: Path, text: str) -> None:
    write(server, ("server.properties", text))
    assert uuids_of(server).find("Notch") is None


def test_without_the_file_nobody_knows(server: Path) -> None:
    (server / "server.properties").unlink()
    assert uuids_of(server).find("Notch") is None
    assert PlayerUuids(None, PropertiesFile(None)).find("Notch") is None


@pytest.mark.parametrize(
    "files",
    [
        [("config/paper-global.yml", "proxies: {velocity: {enabled: false}, bungee-cord: {online-mode: true}}")],
        [("spigot.yml", "settings: {bungeecord: false}")],
        [("spigot.yml", ""), ("paper.yml", "settings: a text"), ("config/paper-global.yml", "[1, 2]")],
    ],
)
def test_no_proxy_forwards_anything(server: Path, files: list[tuple[str, str]]) -> None:
    write(server, *files)
    assert uuids_of(server).find("Notch") == NOTCH_OFFLINE


# --- behind a proxy ---


@pytest.mark.parametrize("files", [[VELOCITY], [OLD_VELOCITY], [BUNGEECORD], [BUNGEECORD, VELOCITY]])
def test_a_proxy_forwards_mojangs_and_who_has_joined_is_known(server: Path, files: list[tuple[str, str]]) -> None:
    write(server, *files)
    uuids = uuids_of(server)
    assert uuids.find("Notch") is None
    entries = [{"name": "Notch", "uuid": NOTCH.upper(), "expiresOn": "2001-01-01 00:00:00 +0000"}, {"name": "x"}, 7]
    write(server, ("usercache.json", json.dumps(entries)))
    assert uuids.find("Notch") is None
    uuids.refresh()
    assert (uuids.find("Notch"), uuids.find("notch")) == (NOTCH, None)


@pytest.mark.parametrize(
    "files",
    [
        [("config/paper-global.yml", "proxies: {velocity: {enabled: true, online-mode: false}}")],
        [BUNGEECORD, ("config/paper-global.yml", "proxies: {bungee-cord: {online-mode: false}}")],
        [BUNGEECORD, ("paper.yml", "settings: {bungee-online-mode: false}")],
    ],
)
def test_a_proxy_in_offline_mode_derives_them_from_names_unless_it_gave_another(
    server: Path, files: list[tuple[str, str]]
) -> None:
    write(server, *files, ("usercache.json", json.dumps([{"name": "Alice", "uuid": NOTCH}])))
    uuids = uuids_of(server)
    assert (uuids.find("Notch"), uuids.find("Alice")) == (NOTCH_OFFLINE, NOTCH)


def test_a_proxy_that_comes_or_goes_is_noticed(server: Path) -> None:
    uuids = uuids_of(server)
    write(server, VELOCITY)
    uuids.refresh()
    assert uuids.find("Notch") is None
    (server / VELOCITY[0]).unlink()
    uuids.refresh()
    assert uuids.find("Notch") == NOTCH_OFFLINE


# --- files that are not as they should be ---


@pytest.mark.parametrize("text", ["[", "{}", '[{"name": "Notch", "uuid": "nonsense"}]', "[" * 100_000, " " * 2**21])
def test_a_broken_list_of_joined_players_is_ignored(server: Path, text: str) -> None:
    write(server, VELOCITY, ("usercache.json", text))
    assert uuids_of(server).find("Notch") is None


@pytest.mark.parametrize("text", ["proxies: [", "\t", " " * 2**21])
def test_a_broken_config_derives_nothing_and_shows_nothing(
    server: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    write(server, ("config/paper-global.yml", f"secret: a-secret\n{text}"))
    assert uuids_of(server).find("Notch") is None
    assert "a-secret" not in caplog.text
