"""UUIDs of players on a server in offline mode: facts from the game itself."""

from pathlib import Path

import pytest

from plugin_bridge.server.files import PropertiesFile, ServerProperties, find_uuid

OFFLINE = ServerProperties(online_mode=False)


def test_notch_is_who_the_game_says() -> None:
    assert find_uuid(OFFLINE, "Notch") == "b50ad385-829d-3141-a216-7e7d7539ba7f"


def test_each_spelling_is_another_player() -> None:
    assert len({find_uuid(OFFLINE, name) for name in ("Notch", "notch", "NOTCH")}) == 3


@pytest.mark.parametrize("name", ["Alice", ".Steve_1", "x" * 16, "玩家"])
def test_it_is_a_uuid_of_the_third_kind_in_lower_case(name: str) -> None:
    found = find_uuid(OFFLINE, name)
    assert found is not None
    assert (len(found), found[14], found == found.lower()) == (36, "3", True)
    assert found[19] in "89ab"


@pytest.mark.parametrize("text", ["online-mode=true\n", "", "motd=online-mode=false\n"])
def test_in_online_mode_the_name_tells_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(text, encoding="utf-8")
    assert find_uuid(PropertiesFile(path).current, "Notch") is None


def test_without_the_file_nobody_knows(tmp_path: Path) -> None:
    assert find_uuid(PropertiesFile(tmp_path / "server.properties").current, "Notch") is None
    assert find_uuid(None, "Notch") is None
