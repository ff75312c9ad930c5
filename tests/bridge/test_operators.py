"""Operators at one moment, by ops.json and AuthMe's notes; the stories are in tests/api/test_login_prompt.py."""

import json
import os
import time
from pathlib import Path

import pytest

from plugin_bridge.authme.config import AuthMeConfig, read_authme_config
from plugin_bridge.server.files import OpsFile
from plugin_bridge.server.operators import SETTLES_AFTER, LimboNotes, Operator, Operators, OpNote, Standing
from tests.support.authme.authme_like import offline_uuid
from tests.support.authme.game_server import GameServer, write_game_server

OLIVIA = offline_uuid("Olivia")
LONGEST = 2 * 30 + 5


class Watch:
    """A monotonic clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Place:
    """A game server's folder in which AuthMe has run, and the operators there."""

    def __init__(self, directory: Path, config: AuthMeConfig) -> None:
        self.game: GameServer = write_game_server(directory)
        self.notes = self.game.authme_directory / "playerdata"
        self.notes.mkdir(parents=True)
        self.watch = Watch()
        limbo = LimboNotes(self.game.authme_directory, config)
        self.operators = Operators(OpsFile(self.game.ops_file), limbo, monotonic=self.watch)
        assert self.standing() is Standing.LISTED

    def standing(self) -> Standing | None:
        operator = self.operators.find("olivia")
        return None if operator is None else operator.standing

    def write_note(self, text: str = '{"operator": true}') -> Path:
        file = self.notes / OLIVIA / "data.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def leave(self) -> None:
        self.game.write_operators()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "game", AuthMeConfig())


def test_between_both_writes_nothing_is_certain_and_use_is_refused(place: Place) -> None:
    place.leave()
    assert place.standing() is Standing.AWAY
    assert (place.operators.level_of("Olivia"), place.operators.protected_level_of("Olivia")) == (0, 4)
    assert (place.operators.names(), place.operators.find_dismissed()) == (frozenset({"olivia"}), frozenset())
    assert place.operators.uuids() == {"olivia": ("Olivia", OLIVIA)}
    place.write_note()
    assert place.standing() is Standing.HELD
    assert (place.operators.level_of("OLIVIA"), place.operators.find_dismissed()) == (4, frozenset())


def test_without_a_note_the_name_is_nobodys_after_seconds_even_if_it_is_back_later(place: Place) -> None:
    place.leave()
    assert place.standing() is Standing.AWAY
    place.watch.seconds += SETTLES_AFTER
    assert (place.standing(), place.operators.find_dismissed()) == (None, frozenset({"olivia"}))
    place.game.write_operators("Olivia")
    assert (place.standing(), place.operators.find_dismissed()) == (Standing.LISTED, frozenset({"olivia"}))
    place.operators.forget_dismissed({"olivia"})
    assert place.operators.find_dismissed() == frozenset()


@pytest.mark.parametrize("text", ["", '{"operator": tr', "\x00", "[1]"])
def test_a_note_that_cannot_be_read_is_waited_for_as_long_as_one_may_stand_there(place: Place, text: str) -> None:
    place.leave()
    place.write_note(text)
    place.watch.seconds += LONGEST - 1
    assert place.standing() is Standing.AWAY  # since this look
    place.watch.seconds += LONGEST - 1
    assert place.standing() is Standing.AWAY
    place.watch.seconds += 1
    assert place.standing() is None


@pytest.mark.parametrize("text", ['{"operator": false}', "{}", "null"])
def test_a_note_that_gives_nothing_back_holds_nothing(place: Place, text: str) -> None:
    place.leave()
    place.write_note(text)
    assert place.standing() is Standing.AWAY
    place.watch.seconds += SETTLES_AFTER
    assert place.standing() is None


def test_a_note_from_before_holds_nothing_until_authme_writes_it_again(place: Place) -> None:
    file = place.write_note()
    place.watch.seconds += 1
    assert place.standing() is Standing.LISTED
    place.leave()
    assert place.standing() is Standing.AWAY
    file.write_text('{"operator": true, "can-fly": true}')
    assert place.standing() is Standing.HELD


def test_a_join_during_a_look_is_not_taken_for_a_note_from_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = LimboNotes.find

    def find_later(notes: LimboNotes, uuid: str) -> OpNote | None:
        monkeypatch.setattr(LimboNotes, "find", find)
        place.leave()  # after ops.json was read, before the note is looked for
        place.write_note()
        return find(notes, uuid)

    monkeypatch.setattr(LimboNotes, "find", find_later)
    place.watch.seconds += 1
    assert place.standing() is Standing.HELD


def test_who_lost_op_does_not_keep_it_because_others_come_and_go(place: Place) -> None:
    place.leave()
    for number in range(40):
        place.watch.seconds += SETTLES_AFTER - 1
        place.game.write_operators(*(["Bob"] if number % 2 else []))
        if place.standing() is None:
            break
    assert (place.standing(), place.operators.find_dismissed()) == (None, frozenset({"olivia"}))


def test_whoever_comes_and_goes_all_the_time_is_away_from_the_last_time_on(tmp_path: Path) -> None:
    place = Place(tmp_path / "game", AuthMeConfig(limbo_persistence="disabled"))
    place.leave()
    for number in range(5):
        assert place.standing() is Standing.AWAY
        place.watch.seconds += LONGEST - 1
        place.game.write_operators(*(["Bob"] if number % 2 else []))  # back and away again, unseen between two looks
        assert place.standing() is Standing.AWAY
    place.watch.seconds += LONGEST
    assert place.standing() is None


@pytest.mark.parametrize(
    ("written", "longest"),
    [({}, 65), ({"timeout": 0}, 3600), ({"timeout": 10}, 25), ({"timeout": 10, "loginTimeout": 60}, 125)],
)
def test_the_longest_stay_follows_from_authmes_config(tmp_path: Path, written: dict[str, int], longest: int) -> None:
    file = tmp_path / "config.yml"
    file.write_text(json.dumps({"settings": {"restrictions": written}}))
    assert LimboNotes(None, read_authme_config(file)).longest_prompt == longest


def test_where_authme_never_ran_or_there_is_none_a_name_is_gone_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path / "game", AuthMeConfig())
    place.notes.rmdir()
    alone = Operators(OpsFile(place.game.ops_file))
    assert alone.level_of("Olivia") == 4
    place.watch.seconds += 1
    place.leave()
    assert (place.standing(), alone.find("Olivia"), alone.find_dismissed()) == (None, None, frozenset({"olivia"}))


def test_names_in_the_config_are_operators_whatever_the_game_says(tmp_path: Path) -> None:
    place = Place(tmp_path / "game", AuthMeConfig())
    ops = OpsFile(place.game.ops_file, ["Host"])
    operators = Operators(ops, LimboNotes(place.game.authme_directory, AuthMeConfig()))
    operators.remember([Operator("Host", 1, None)])
    assert (operators.level_of("host"), Operators(OpsFile(None, ["Host"])).names()) == (4, frozenset({"host"}))


def test_a_restart_forgets_neither_who_is_held_nor_the_level(place: Place) -> None:
    place.leave()
    place.write_note()
    limbo = LimboNotes(place.game.authme_directory, AuthMeConfig())
    again = Operators(OpsFile(place.game.ops_file), limbo, monotonic=place.watch)
    again.remember([Operator("Olivia", 2, OLIVIA), Operator("Oscar", 3, None)])
    assert (again.level_of("Olivia"), again.protected_level_of("Oscar")) == (2, 3)
    place.game.write_operators("Olivia", "Oscar")
    assert (again.level_of("Olivia"), again.level_of("Oscar")) == (2, 3)


def test_a_note_that_a_crash_left_long_ago_makes_nobody_an_operator(place: Place) -> None:
    notes = place.operators.notes
    assert notes is not None
    file = place.write_note()
    assert notes.held_among({"Olivia": OLIVIA, "Bob": offline_uuid("Bob")}) == {"Olivia": OLIVIA}
    long_ago = time.time() - LONGEST - 1
    os.utime(file, (long_ago, long_ago))
    assert notes.held_among({"Olivia": OLIVIA}) == {}


def test_entries_as_servers_without_levels_write_them_count(place: Place) -> None:
    entries = [
        {"uuid": OLIVIA, "name": "Olivia"},
        {"uuid": offline_uuid("Oscar"), "name": "Oscar", "level": "3"},
        {"uuid": offline_uuid("Mo"), "name": "Mo", "level": 2.0},
        {"name": "Typed"},
        {"uuid": offline_uuid("M"), "name": "M\ud800", "level": 4},
        {"uuid": offline_uuid("MM"), "name": "M" * 300, "level": 4},
        {"uuid": offline_uuid("Max"), "name": "Max", "level": "much"},
    ]
    place.game.ops_file.write_text(json.dumps(entries))
    levels = [OpsFile(place.game.ops_file).level_of(name) for name in ("Olivia", "Oscar", "Mo", "Max", "Typed")]
    assert levels == [1, 3, 2, 0, 0]
    assert OpsFile(place.game.ops_file).names() == {"olivia", "oscar", "mo"}  # what no database would store is no name


def test_a_segment_that_is_being_written_tells_nothing(place: Place) -> None:
    segment = place.notes / "seg16-3-limbo.json"
    segment.write_text('{"' + OLIVIA)
    place.leave()
    place.watch.seconds += SETTLES_AFTER
    assert place.standing() is Standing.AWAY
    place.watch.seconds += SETTLES_AFTER
    assert place.standing() is Standing.AWAY
    segment.write_text(json.dumps({OLIVIA: {"operator": "true"}, "another": {"operator": False}}))
    assert place.standing() is Standing.HELD


def test_a_folder_that_may_not_be_read_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path / "game", AuthMeConfig())

    def refuse(path: Path) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("plugin_bridge.server.operators.find_stamp", refuse)  # root may read everything
    place.leave()
    assert place.standing() is Standing.AWAY
    place.watch.seconds += LONGEST - 1
    assert place.standing() is Standing.AWAY
    place.watch.seconds += 1
    assert place.standing() is None
