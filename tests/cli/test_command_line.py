"""Parsing of the command line, and prompts for what it lacks."""

import getpass
import subprocess
import sys
import warnings
from pathlib import Path
from typing import get_args

import pytest

from regsvc.cli import command_line
from regsvc.database.models import STATUSES
from regsvc.users.transitions import TRANSITIONS, PasswordChoice
from regsvc.users.user_query import LISTED_STATES, PLUGIN_STATES
from tests.support.command_line import companion_here
from tests.support.quick_start import REPOSITORY


def test_the_config_may_be_named_anywhere_and_the_game_directory_as_well() -> None:
    for words in (
        "--config F users list",
        "users --config F list",
        "users list --config F",
        "--config other users list --config F",
        "sync --config F",
    ):
        assert command_line.parse(words.split()).config == "F", words
    given = command_line.parse(["--game-dir", "D", "users", "ban", "Bob"])
    assert (given.game_dir, given.config, given.command) == ("D", None, "users")
    given = command_line.parse(["serve"])
    assert (given.command, given.config, given.game_dir) == ("serve", None, None)


IMPORTED_LATER = {
    "PIL",
    "jwt",
    "cryptography.hazmat",
    "email_validator",
    "regsvc.core.http_client",
    "regsvc.doctor.checkup",
}


def imported(program: str, *arguments: str) -> set[str]:
    """Return what `companion ARGUMENTS…` has imported at its end, in a process that runs `program` first."""
    program += f"\ntry: companion.main({[*arguments]})\nfinally: print(*sys.modules, file=sys.stderr)"
    run = [sys.executable, "-c", f"import sys, companion\n{program}"]
    ran = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not any(line.startswith("companion: ") for line in ran.stderr.splitlines())  # it did not refuse
    return {*ran.stderr.split()}


@pytest.mark.parametrize("arguments", ["version", "docs", "--help", "users list --help", "sync --help"])
def test_a_command_imports_what_it_needs(arguments: str) -> None:
    unneeded = {"peewee", "tornado", "cryptography.hazmat", "asyncio", "ssl", "regsvc.config.sections"}
    assert unneeded.isdisjoint(imported("", *arguments.split()))


def test_what_is_not_used_is_not_imported(tmp_path: Path) -> None:
    """Neither by commands, nor by the daemon until somebody asks for it."""
    config = tmp_path / "companion.toml"
    config.write_text(f'[server]\nport = 0\nstate_dir = "{tmp_path}/state"\n', encoding="utf-8")
    given = ("--config", str(config))
    stop = """
from regsvc.cli import serve
from regsvc.web import assets
announce = serve._announce
def stop(address):
    announce(address)
    print(*sys.modules, *assets._LOADED, file=sys.stderr, flush=True)
    os._exit(0)
serve._announce = stop"""
    served = imported(f"import os{stop}", "serve", *given)
    assert "regsvc.web.pages" in served
    assert not [name for name in served if name in IMPORTED_LATER or name.startswith("web/")]
    for command in ("status", "users list"):
        unneeded = {*IMPORTED_LATER, "tornado", "regsvc.web", "regsvc.http.call"}
        assert unneeded.isdisjoint(imported("", *command.split(), *given)), command


def test_the_command_line_knows_what_the_rules_know() -> None:
    """It repeats a few names, since printing the help is faster than importing the rules."""
    filters = {"status": STATUSES, "plugin": PLUGIN_STATES, "allowlist": LISTED_STATES}
    assert {name: ("all", *states) for name, states in filters.items()} == command_line.USER_FILTERS
    assert (*TRANSITIONS,) == command_line.TRANSITIONS
    assert get_args(PasswordChoice) == command_line.PASSWORD_CHOICES


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
