"""The model of a game server with AuthMe does at a join what was seen in a real one, or read in AuthMe's source."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.authme.authme_like import AuthMeLike, offline_uuid
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.bukkit_server import BukkitServer, Step
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.authme.limbo_notes import segment_name
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.one_database("sqlite")

PASSWORD = "s3cret"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bukkit(game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock) -> BukkitServer:
    """A running server; Olivia, its operator, is registered."""
    authme = AuthMeLike(authme_table, now=clock)
    authme.register("Olivia", PASSWORD)
    bukkit = BukkitServer(game_server, authme, clock)
    assert not notes_of(game_server).exists()
    bukkit.start()
    return bukkit


def notes_of(game: GameServer) -> Path:
    return game.authme_directory / "playerdata"


def operators(game: GameServer) -> list[str]:
    """The names in ops.json; `(empty)` and `(half)` for what a reader cannot use."""
    text = game.ops_file.read_text(encoding="utf-8")
    if not text:
        return ["(empty)"]
    try:
        return [entry["name"] for entry in json.loads(text)]
    except ValueError:
        return ["(half)"]


def note_of(bukkit: BukkitServer, name: str = "Olivia") -> Any:
    """Return what the default kind of note has on this name: the object, the text if it is broken, None: no note."""
    file = notes_of(bukkit.game) / offline_uuid(name) / "data.json"
    if not file.exists():
        return None
    text = file.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        return text


def holds(bukkit: BukkitServer) -> bool:
    note = note_of(bukkit)
    return isinstance(note, dict) and note["operator"]


def watched(bukkit: BukkitServer) -> list[tuple[Step, list[str], bool]]:
    """Return a list that grows by each step, with what ops.json and the note are at that moment."""
    seen: list[tuple[Step, list[str], bool]] = []
    bukkit.on_step = lambda step: seen.append((step, operators(bukkit.game), holds(bukkit)))
    return seen


def test_op_is_taken_before_the_note_is_there_and_comes_back_before_it_goes(bukkit: BukkitServer) -> None:
    seen = watched(bukkit)
    assert bukkit.join("Olivia") == "at the prompt"
    taken: list[tuple[Step, list[str], bool]] = [
        ("writing ops.json", ["(empty)"], False),
        ("writing ops.json", ["(half)"], False),
        ("op taken", [], False),
        ("writing the note", [], False),
        ("writing the note", [], False),
        ("note saved", [], True),
    ]
    given: list[tuple[Step, list[str], bool]] = [
        ("writing ops.json", ["(empty)"], True),
        ("writing ops.json", ["(half)"], True),
        ("op given", ["Olivia"], True),
        ("note removed", ["Olivia"], False),
    ]
    assert seen == taken
    assert not bukkit.login("Olivia", "wrong")
    assert bukkit.login("Olivia", PASSWORD)
    assert seen == taken + given
    bukkit.logout("Olivia")
    bukkit.quit("Olivia")
    assert seen == (taken + given) * 2
    assert [entry["name"] for entry in json.loads(bukkit.game.usercache_file.read_text())] == ["Olivia"]


def test_a_stranger_is_kicked_when_the_time_is_over_and_op_is_back(bukkit: BukkitServer, clock: ManualClock) -> None:
    bukkit.game.change_authme({"settings.restrictions.timeout": 20, "settings.restrictions.loginTimeout": 25})
    bukkit.reload_authme()
    for version, seconds in {(5, 6): 20, (6, 0): 25}.items():
        bukkit.version = version
        bukkit.join("Olivia")
        clock.advance(seconds=seconds - 1)
        bukkit.kick_late()
        assert (operators(bukkit.game), holds(bukkit)) == ([], True)
        clock.advance(seconds=1)
        bukkit.kick_late()
        assert (operators(bukkit.game), note_of(bukkit)) == (["Olivia"], None)
    bukkit.game.change_authme({"settings.restrictions.loginTimeout": 0})
    bukkit.reload_authme()
    bukkit.join("Olivia")
    clock.advance(days=1)
    bukkit.kick_late()
    assert operators(bukkit.game) == []


def test_op_is_lost_for_good_where_the_operator_had_no_row(bukkit: BukkitServer) -> None:
    bukkit.op("Paul")
    bukkit.join("Paul")
    assert note_of(bukkit, "Paul")["operator"] is False
    assert bukkit.register("Paul", PASSWORD)
    assert operators(bukkit.game) == ["Olivia"]
    bukkit.join("Olivia")
    bukkit.login("Olivia", PASSWORD)
    assert bukkit.unregister("Olivia", PASSWORD)
    bukkit.quit("Olivia")
    assert operators(bukkit.game) == []


def test_a_login_without_the_prompt_leaves_ops_json_alone(bukkit: BukkitServer) -> None:
    authme, written = bukkit.authme, bukkit.game.ops_file.stat().st_mtime_ns
    assert bukkit.join("Olivia", is_in_network=True) == "in the game"
    assert bukkit.join("Olivia") == bukkit.join("OLIVIA") == "refused"
    authme.set_premium("Olivia", "a-uuid")
    authme.has_sessions = True
    bukkit.quit("Olivia")
    assert bukkit.join("Olivia", premium_uuid="a-uuid") == "in the game"
    bukkit.quit("Olivia")
    assert bukkit.join("Olivia") == "in the game"
    assert bukkit.game.ops_file.stat().st_mtime_ns == written


def test_the_level_is_that_of_server_properties_after_the_first_login(bukkit: BukkitServer) -> None:
    bukkit.stop()
    bukkit.game.write_operators("Olivia", levels={"Olivia": 2})
    bukkit.game.write_properties(op_permission_level=3)
    bukkit.start()
    bukkit.join("Olivia")
    bukkit.quit("Olivia")
    assert [entry["level"] for entry in json.loads(bukkit.game.ops_file.read_text())] == [3]


@pytest.mark.parametrize(
    ("step", "number", "left", "is_held"),
    [
        ("writing ops.json", 1, ["(empty)"], False),
        ("op taken", 1, [], False),
        ("writing the note", 1, [], False),
        ("writing the note", 2, [], False),
        ("note saved", 1, [], True),
    ],
)
def test_what_a_kill_at_the_join_leaves(
    bukkit: BukkitServer, step: Step, number: int, left: list[str], is_held: bool
) -> None:
    """Op is back after the next login where the note was saved, and else lost for good."""
    assert bukkit.kill_at(step, lambda: bukkit.join("Olivia"), number)
    assert (operators(bukkit.game), holds(bukkit)) == (left, is_held)
    bukkit.start()
    assert operators(bukkit.game) == []
    bukkit.join("Olivia")
    bukkit.login("Olivia", PASSWORD)
    assert operators(bukkit.game) == (["Olivia"] if is_held else [])


def test_a_note_that_a_kill_left_gives_op_back_after_a_deop(bukkit: BukkitServer) -> None:
    bukkit.join("Olivia")
    assert bukkit.kill_at("op given", lambda: bukkit.login("Olivia", PASSWORD))
    assert (operators(bukkit.game), holds(bukkit)) == (["Olivia"], True)
    bukkit.start()
    bukkit.deop("Olivia")
    bukkit.join("Olivia")
    bukkit.deop("Olivia")
    bukkit.quit("Olivia")
    assert operators(bukkit.game) == ["Olivia"]


def test_a_login_without_the_prompt_drops_such_a_note_from_6_0_on(bukkit: BukkitServer) -> None:
    bukkit.join("Olivia")
    bukkit.kill()
    bukkit.start()
    bukkit.join("Olivia", is_in_network=True)
    assert holds(bukkit)
    bukkit.quit("Olivia")
    bukkit.version = (6, 0)
    bukkit.join("Olivia", is_in_network=True)
    assert (operators(bukkit.game), note_of(bukkit)) == ([], None)


def test_a_stop_gives_op_back(bukkit: BukkitServer) -> None:
    bukkit.join("Olivia")
    bukkit.stop()
    assert (operators(bukkit.game), note_of(bukkit)) == (["Olivia"], None)


def test_who_leaves_in_a_vehicle_has_a_note_while_away_from_5_7_on(bukkit: BukkitServer) -> None:
    for version in [(5, 6), (6, 0)]:
        bukkit.version = version
        bukkit.join("Olivia", is_in_network=True)
        bukkit.quit("Olivia", in_vehicle=True)
        assert (operators(bukkit.game), holds(bukkit)) == (["Olivia"], version == (6, 0))
    bukkit.join("Olivia")
    assert note_of(bukkit)["vehicle-type"] == "BOAT"
    bukkit.login("Olivia", PASSWORD)
    assert note_of(bukkit) is None


def test_notes_of_another_kind_are_not_converted(bukkit: BukkitServer) -> None:
    bukkit.join("Olivia")
    bukkit.game.change_authme({"limbo.persistence.type": "DISTRIBUTED_FILES"})
    bukkit.reload_authme()
    bukkit.login("Olivia", PASSWORD)
    assert (operators(bukkit.game), holds(bukkit)) == (["Olivia"], True)
    bukkit.game.change_authme({"limbo.persistence.type": "DISABLED"})
    bukkit.reload_authme()
    bukkit.deop("Olivia")
    bukkit.logout("Olivia")
    bukkit.quit("Olivia")
    assert (operators(bukkit.game), holds(bukkit)) == ([], True)


def test_segments_are_named_as_in_authmes_own_tests() -> None:
    names = {"ONE": "f0e", "FOUR": "f9cc", "EIGHT": "90ad", "SIXTEEN": "fc9a", "THIRTY_TWO": "49c39a"}
    names |= {"SIXTY_FOUR": "9b4", "TWO_FIFTY": "a813c"}
    segments = ["seg1-0", "seg4-3", "seg8-4", "seg16-f", "seg32-01101", "seg64-221", "seg256-a8"]
    assert [segment_name(size, uuid) for size, uuid in names.items()] == segments


def test_a_segment_holds_notes_by_uuid_and_a_new_size_moves_them(bukkit: BukkitServer) -> None:
    def segments() -> dict[str, list[str]]:
        return {file.name: list(json.loads(file.read_text())) for file in notes_of(bukkit.game).iterdir()}

    bukkit.game.change_authme({"limbo.persistence.type": "DISTRIBUTED_FILES"})
    bukkit.reload_authme()
    uuid = offline_uuid("Olivia")
    bukkit.join("Olivia")
    assert segments() == {f"seg16-{uuid[0]}-limbo.json": [uuid]}
    bukkit.game.change_authme({"limbo.persistence.distributionSize": "FOUR"})
    bukkit.reload_authme()
    assert segments() == {f"{segment_name('FOUR', uuid)}-limbo.json": [uuid]}
    bukkit.login("Olivia", PASSWORD)
    assert list(segments().values()) == [[]]


def test_each_server_of_a_network_has_its_own_operators(bukkit: BukkitServer, tmp_path: Path) -> None:
    lobby = BukkitServer(write_game_server(tmp_path / "lobby"), AuthMeLike(bukkit.authme.table))
    lobby.game.install_authme(bukkit.authme.table)
    lobby.start()
    bukkit.join("Olivia")
    assert (operators(bukkit.game), operators(lobby.game)) == ([], ["Olivia"])
    lobby.join("Olivia")
    assert lobby.login("Olivia", PASSWORD)
    bukkit.force_login("Olivia")
    assert operators(bukkit.game) == operators(lobby.game) == ["Olivia"]


def test_a_server_without_authme_takes_nothing(game_server: GameServer, authme: AuthMeLike) -> None:
    game_server.authme_config.unlink()
    bukkit = BukkitServer(game_server, authme)
    bukkit.start()
    assert bukkit.join("Olivia") == "in the game"
    assert operators(game_server) == ["Olivia"]
    assert not notes_of(game_server).exists()
