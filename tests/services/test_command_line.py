"""Where the config is named on the command line: wherever it stands, it is the one that is used."""

import pytest

from regsvc import commands


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "F", "users", "list"],
        ["users", "--config", "F", "list"],
        ["users", "list", "--config", "F"],
        ["--config", "other", "users", "list", "--config", "F"],
        ["--config", "F", "sync"],
        ["sync", "--config", "F"],
        ["--config", "F"],
        ["serve", "--config", "F"],
    ],
    ids=" ".join,
)
def test_the_config_may_be_named_anywhere(arguments: list[str]) -> None:
    assert commands.parse(arguments).config == "F"


def test_the_game_directory_as_well() -> None:
    given = commands.parse(["--game-dir", "D", "users", "ban", "Bob"])
    assert (given.game_dir, given.config, given.command) == ("D", None, "users")


def test_nothing_said_is_serve() -> None:
    given = commands.parse([])
    assert (given.command, given.config, given.game_dir) == ("serve", None, None)
