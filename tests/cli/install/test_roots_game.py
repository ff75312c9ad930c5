"""A game server that root runs: whom `companion install` lets the companion be, and that both can use AuthMe's file."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.install.test_answers import END, START, Ask, ask
from tests.cli.install.test_prepared_root import companion
from tests.support.other_user import USER_ID
from tests.support.programs import needs_root

pytestmark = needs_root

__all__ = ["ask"]
KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")  # so that it writes before the end
connection.execute("BEGIN")
connection.executemany("INSERT INTO authme VALUES (?)", [("x" * 900,)] * 500)
os.kill(os.getpid(), 9)
"""
COUNT = """
import os, sqlite3, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
print(sqlite3.connect(sys.argv[1]).execute("SELECT COUNT(*) FROM authme").fetchone()[0])
"""
QUESTIONS = ("--game-dir", "{game}", "--base-url", "https://play.example.net", "--port", "8090")


@pytest.fixture
def game(tmp_path: Path) -> Path:
    """The game's folder; all in it is root's."""
    folder = tmp_path / "game"
    (folder / "plugins/AuthMe").mkdir(parents=True)
    return folder


def arguments(game: Path) -> list[str]:
    return ["install", *(word.format(game=game) for word in QUESTIONS)]


def test_root_is_not_taken_without_a_word(game: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    refused = companion(root, *arguments(game))
    assert refused.status == 2
    assert f"chown -R companion: {game / 'plugins/AuthMe'}; companion install --user companion" in refused.errors
    assert not [*root.iterdir()]
    (game / "server.properties").write_text("white-list=true\n")  # its list is replaced in the folder itself
    told = companion(root, *arguments(game)).errors
    assert ("chown -R companion" in told, "give the game a user of its own" in told) == (False, True), told
    (game / "server.properties").write_text("white-list=false\n")
    (game / "plugins/AuthMe/config.yml").write_text("DataSource:\n  backend: MYSQL\n")
    assert "chown" not in companion(root, *arguments(game)).errors
    meant = companion(root, *arguments(game), "--user", "root")
    assert (meant.status, "warning: it will run as root" in meant.output) == (0, True), meant
    assert companion(root, "install").status == 0


def test_whoever_answers_root_is_asked_again(ask: Ask, game: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ask(str(game), "root", "", "daemon", START[2], START[3], "later", *END)
    assert settings.user == "daemon"
    assert "belongs to root" in capsys.readouterr().out
    assert ask(str(game), "root", "y", START[2], START[3], "later", *END).user == "root"


def test_both_can_use_a_file_that_is_not_roots(game: Path) -> None:
    """The game as root is killed in the middle of a change: the companion can undo that, as the journal is its own."""
    file = game / "plugins/AuthMe/authme.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE authme (name)")
    for path in (file.parent, file):
        os.chown(path, USER_ID, USER_ID)
    for folder in file.parent.parents:
        if folder.stat().st_mode & 0o011 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    assert subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False).returncode == -9
    assert file.with_name("authme.db-journal").stat().st_uid == USER_ID
    count = [sys.executable, "-c", COUNT, str(file), str(USER_ID)]
    seen = subprocess.run(count, capture_output=True, text=True, check=False)
    assert (seen.stdout, seen.stderr) == ("0\n", "")
