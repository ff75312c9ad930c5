"""Parsing of the command line, and prompts for what it lacks."""

import getpass
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from regsvc.cli import command_line
from tests.support.command_line import companion_here
from tests.support.quick_start import REPOSITORY


def test_the_config_may_be_named_anywhere_and_the_game_directory_as_well() -> None:
    for words in (
        "--config F users list",
        "users --config F list",
        "users list --config F",
        "--config other users list --config F",
        "sync --config F",
        "--config F",
    ):
        assert command_line.parse(words.split()).config == "F", words
    given = command_line.parse(["--game-dir", "D", "users", "ban", "Bob"])
    assert (given.game_dir, given.config, given.command) == ("D", None, "users")
    given = command_line.parse([])
    assert (given.command, given.config, given.game_dir) == ("serve", None, None)


@pytest.mark.parametrize("arguments", [["version"], ["docs"], ["--help"]], ids=" ".join)
def test_a_command_imports_what_it_needs(arguments: list[str]) -> None:
    program = f"import sys, companion\ntry: companion.main({arguments})\nfinally: print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ran.stdout
    assert {"peewee", "tornado", "cryptography", "regsvc.config.sections"}.isdisjoint(ran.stderr.split())


@pytest.mark.parametrize("action", ["create", "password"])
def test_a_password_is_not_asked_for_where_nobody_sits(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raise like getpass without a terminal, as from cron, where the input would be visible."""

    def ask_without_terminal(prompt: str) -> str:
        warnings.warn("Can not control echo on the terminal.", getpass.GetPassWarning, stacklevel=2)
        raise AssertionError("it was asked for")

    monkeypatch.setattr(getpass, "getpass", ask_without_terminal)
    config = tmp_path / "companion.toml"
    config.write_text(f'[server]\nstate_dir = "{tmp_path}/state"\n', encoding="utf-8")
    assert companion_here("migrate", config=config).status == 0
    with pytest.raises(SystemExit, match="there is no terminal to read the password from; use --password-stdin"):
        companion_here("users", action, "Alice", config=config)
