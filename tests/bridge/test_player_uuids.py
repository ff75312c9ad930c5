"""UUIDs of players before they join: facts from the game itself, and from what Paper and Spigot write."""

import json
from pathlib import Path

import pytest

from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.player_uuids import PlayerUuids, UuidFamily, offline_uuid

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


@pytest.mark.parametrize(
    ("name", "uuid"),
    [
        ("Apple", "5862580e-aa1b-3ba2-82db-40e501c08259"),
        ("klucsik", "09cfa1dc-dd17-3c85-bb06-5e391a0f199e"),
        ("fenox", "ebf6a9d0-2b3b-31ee-821b-492c1fc625b2"),
        ("Steve", "5627dd98-e6be-3c21-b8a8-e92344183641"),
        ("steve", "53909932-f794-33c0-9329-948045a4c1ce"),
        ("squishy_tofu", "ebc52a25-7a55-33c3-b21e-cd9fee9d377e"),
    ],
)
def test_players_of_other_servers_have_the_uuids_that_are_known_of_them(name: str, uuid: str) -> None:
    assert offline_uuid(name) == uuid


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


FLOODGATES = "00000000-0000-0000-0009-01f64f65c7c3"
OF_A_PLUGIN = "11111111-2222-8333-8444-555555555555"


@pytest.mark.parametrize(
    ("joined", "name", "family", "on_bedrock", "found"),
    [
        ([("Notch", NOTCH)], "notch", "online", False, ("Notch", NOTCH)),
        ([("Notch", NOTCH)], "notch", None, False, ("Notch", NOTCH)),
        ([("Notch", NOTCH_OFFLINE)], "Notch", "offline", False, ("Notch", NOTCH_OFFLINE)),
        ([("Notch", NOTCH_OFFLINE)], "notch", "offline", False, None),
        ([("Notch", NOTCH)], "Notch", "offline", False, None),
        ([("Notch", NOTCH_OFFLINE)], "Notch", "online", False, None),
        ([("Notch", NOTCH_OFFLINE), ("Notch", NOTCH)], "Notch", "online", False, ("Notch", NOTCH)),
        ([("Notch", OF_A_PLUGIN)], "Notch", "offline", False, ("Notch", OF_A_PLUGIN)),
        ([(".Steve_1", FLOODGATES)], ".steve_1", "offline", True, (".Steve_1", FLOODGATES)),
        ([(".Steve_1", offline_uuid(".Steve_1"))], ".Steve_1", "offline", True, None),
        ([("Steve", FLOODGATES)], "Steve", "online", False, None),
    ],
)
def test_who_has_joined(
    server: Path,
    joined: list[tuple[str, str]],
    name: str,
    family: UuidFamily | None,
    on_bedrock: bool,
    found: tuple[str, str] | None,
) -> None:
    """Facts of the server before guesses; but nothing that cannot be this player's."""
    write(server, ("usercache.json", json.dumps([{"name": name, "uuid": uuid} for name, uuid in joined])))
    assert uuids_of(server).find_joined(name, family, is_on_bedrock=on_bedrock) == found


@pytest.mark.parametrize(
    ("joined", "family", "doubt"),
    [
        ([("Notch", NOTCH)], "offline", "Notch"),
        ([("Notch", NOTCH_OFFLINE)], "online", "Notch"),
        ([("Notch", NOTCH), ("Notch", NOTCH_OFFLINE)], "online", None),  # since the server's mode was changed
        ([("Notch", NOTCH)], None, None),
        ([("Notch", FLOODGATES)], "online", None),
        ([("Notch", OF_A_PLUGIN)], "offline", None),
        ([("stranger", NOTCH)], "offline", None),
    ],
)
def test_one_known_player_contradicts_the_config(
    server: Path, joined: list[tuple[str, str]], family: UuidFamily | None, doubt: str | None
) -> None:
    write(server, ("usercache.json", json.dumps([{"name": name, "uuid": uuid} for name, uuid in joined])))
    assert uuids_of(server).find_doubt({"notch", "alice"}, family) == doubt


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
