"""Arguments, variables and files in another encoding than UTF-8: a command does its work or refuses it by name."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from companion import main
from tests.support.command_line import Finished
from tests.support.each import assert_each
from tests.support.foreign_text import HOSTILE, require_text

Run = Callable[..., Finished]
TYPED = os.fsdecode(b"".join(raw.replace(b"\0", b"")[:20] for raw in HOSTILE.values()))
"""As Python has it from the system: a lone surrogate for each byte that is not UTF-8."""
COMMANDS = [
    ("why", "?"),
    ("users", "show", "?"),
    ("users", "list", "--search", "?"),
    ("users", "create", "?", "--password-stdin"),
    ("users", "create", "Bob", "--email", "?", "--password-stdin"),
    *(("users", verb, "?") for verb in ("approve", "reject", "ban", "unban", "reopen", "delete", "reset-totp")),
    ("users", "ban", "Alice", "--reason", "?"),
    ("users", "note", "Alice", "?"),
    ("users", "ask", "Alice", "?"),
    ("users", "password", "?", "--link"),
    ("users", "role", "?", "reviewer"),
    ("announcement", "set", "?"),
    ("announcement", "set", "Hello", "--language", "?"),
    ("token", "create", "?", "--may", "users.read"),
    ("token", "revoke", "?"),
    ("mail-test", "?"),
    ("docs", "?"),
    ("config", "get", "?"),
    ("config", "set", "server.name", "?"),
    ("check-config", "--config", "?"),
    ("import", "?"),
    ("backup", "?"),
    ("restore", "?"),
    ("migrate", "--to", "?"),
    ("doctor", "--language", "?"),
]


@pytest.mark.every_database
def test_any_argument_is_done_or_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for a backup

    def check(command: tuple[str, ...]) -> None:
        done = run(*(TYPED if word == "?" else word for word in command), typed="the-first-password\n")
        require_text(done.output, 10**6)
        require_text(done.errors.encode("utf-8", "backslashreplace").decode(), 10**6)

    assert run("migrate").status == 0
    assert run("users", "create", "Alice", "--password-stdin", typed="the-first-password\n").status == 0
    assert_each(COMMANDS, check)


def test_a_terminal_that_lacks_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "companion.toml"
    config.write_text('[server]\nname = "正常 服务器"\n', encoding="utf-8")
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["config", "get", "server.name", "--config", str(config)]) == 0
    screen.seek(0)
    assert "\\u6b63\\u5e38" in screen.read()


def test_a_password_that_is_no_text_is_refused(run: Run) -> None:
    assert run("migrate").status == 0
    done = run("users", "create", "Bob", "--password-stdin", typed=os.fsdecode(b"p\xe9nible-et-long\n"))
    assert (done.status, done.output) == (1, "")
    require_text(done.errors)


def test_input_in_another_encoding_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b"p\xe9nible\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", typed)
    assert main(["version"]) == 0
    assert typed.readline() == "p\udce9nible\n"


@pytest.mark.every_database
def test_any_name_of_a_login_is_an_actor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(name: str) -> None:
        monkeypatch.setenv("LOGNAME", name)
        assert run("users", "note", "Alice", "Hello").status == 0
        require_text(run("users", "show", "Alice").output, 10**6)

    assert run("migrate").status == 0
    assert run("users", "create", "Alice", "--password-stdin", typed="the-first-password\n").status == 0
    assert_each([TYPED, "x" * 5000], check)
