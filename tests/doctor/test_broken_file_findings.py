"""`companion doctor` where files are broken, one or two at a time: it names what is broken, and never fails itself."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import write_game_server
from tests.support.command_line import companion_here
from tests.support.doctor_case import DoctorCase
from tests.support.each import assert_each
from tests.support.other_user import USER_ID, can_be_another, change_owner
from tests.support.ports import free_port

GARBAGE = b"\xff\xfe\x00[{\x80: \x1b" * 300
KEYS = ["verdict", "broken", "risky", "findings", "notExamined", "examined"]
FIELDS = ["id", "severity", "title", "why", "do", "where"]
STATUSES = {"fine": 0, "risky": 1, "broken": 2}

FILES = {
    "companion/companion.toml": "companion.toml",
    "companion/questions.toml": "questions.toml",
    "companion/words": "words",
    "companion/mails": "mails",
    "companion/pages": "pages",
    "companion/look.css": "look.css",
    "companion/mail_password": r"mail_password|\[mail\] password",
    "companion/state": "state",
    "companion/state/home.json": "home.json",
    "companion/state/companion.db": "companion.db",
    "companion/state/installation.key": r"installation.key",
    "companion/state/signing.key": "signing.key",
    "game": "game",
    "game/ops.json": r"ops.json|There are no operators",
    "game/server.properties": "server.properties",
    "game/plugins/AuthMe": "AuthMe",
    "game/plugins/AuthMe/config.yml": "config.yml",
    "game/plugins/AuthMe/authme.db": "authme.db",
}
"""Everything that the doctor reads, and how its report has to name it."""
HARMLESS = {
    "companion/words": ("empty",),
    "companion/mails": ("truncated",),
    "companion/pages": ("garbage", "truncated", "unbalanced", "other values", "empty"),
    "companion/look.css": ("truncated", "unbalanced", "other values", "empty"),
    "companion/mail_password": ("truncated", "other values"),
    "companion/state": ("missing",),
    "companion/state/home.json": ("missing",),
    "companion/state/signing.key": ("missing", "garbage", "truncated", "unbalanced"),
    "game/server.properties": ("unbalanced",),
}
"""Files that may be so: another password, another key, before the first start."""
URLS = {
    "beside AuthMe": "auto",
    "a file": "sqlite:///{}/companion/our.db",
    "a server": "mysql://companion:secret@127.0.0.1:1/companion",
}


def copy(intact: Path, path: Path) -> None:
    (shutil.copytree if intact.is_dir() else shutil.copy2)(intact, path)


def forbid(path: Path, intact: Path) -> None:
    copy(intact, path)
    path.chmod(0)


def exchange(path: Path, intact: Path) -> None:
    """Make a folder of a file, and the other way round."""
    path.mkdir() if intact.is_file() else path.write_bytes(b"")


def spoil(change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    """Return what changes the content of a file; of a folder, that of every file in it."""

    def put(path: Path, intact: Path) -> None:
        copy(intact, path)
        for file in (path, *path.rglob("*")):
            if file.is_file():
                file.write_bytes(change(file.read_bytes()))

    return put


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "missing": lambda path, intact: None,
    "unreadable": forbid,
    "another kind": exchange,
    "a pipe": lambda path, intact: os.mkfifo(path),
    "garbage": spoil(lambda content: GARBAGE),
    "truncated": spoil(lambda content: content[: len(content) // 2]),
    "unbalanced": spoil(lambda content: b"[ {\n" + content),
    "other values": spoil(lambda content: b"[1, [null], {}]\n"),
    "empty": spoil(lambda content: b""),
}
"""Ways to break a file or a folder: what is put at its path, given where the intact one is now."""


@pytest.fixture(scope="module")
def server() -> Iterator[DoctorCase]:
    """A server with every file that the doctor reads, in a folder that another user can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        game = write_game_server(folder / "game")
        game.authme_directory.mkdir(parents=True)
        table = AuthMeTable(SqliteFile(game.authme_directory / "authme.db"))
        create_table(table)
        game.install_authme(table)
        case = DoctorCase(folder / "companion", game, table)
        (case.directory / "questions.toml").write_text('[[question]]\nid = 1\ntype = "text"\ntext = "Who?"\n')
        for part in ("words", "mails/en", "pages"):
            (case.directory / part).mkdir(parents=True)
        (case.directory / "words" / "en.toml").write_text('[message]\nlogged_out = "Bye."\n')
        (case.directory / "mails" / "en" / "approved.txt").write_text("Subject: Welcome\n\nHello $username\n")
        (case.directory / "pages" / "index.html").write_text("<title>Hello</title>")
        (case.directory / "look.css").write_text("body {}")
        (case.directory / "mail_password").write_text("a-mail-password\n")
        (case.directory / "mail_password").chmod(0o600)
        case.change("server", port=free_port(), translations="words", custom_css="look.css")
        case.change("http", web_root="pages")
        case.change("mail", port=free_port(), templates="mails", username="a", password_file="mail_password")
        case.change("questionnaire", file="questions.toml", pass_score=0)
        case.start_once()
        for command in ("doctor", "status"):  # imports what another user may not read
            companion_here(command, config=case.config_file)
        yield case


@pytest.fixture(scope="module")
def intact(server: DoctorCase) -> dict[str, Any]:
    """The report while nothing is broken."""
    with another_user(server.directory.parent):
        configure(server, "auto", "SQLITE")
        return report(server)


def configure(server: DoctorCase, url: str, backend: str) -> None:
    server.change("database", url=url)
    server.game.change_authme({"DataSource.backend": backend, "DataSource.mySQLPort": "1"})
    server.read_config()  # writes it


@contextmanager
def another_user(folder: Path) -> Iterator[None]:
    """Be the owner of the folder, from whom files can be unreadable, unlike from root."""
    if not can_be_another():
        yield
        return
    change_owner(folder)
    os.setgroups([])
    os.setresgid(USER_ID, USER_ID, 0)
    os.setresuid(USER_ID, USER_ID, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


@contextmanager
def broken(path: Path, way: str) -> Iterator[None]:
    intact = path.with_name(f"{path.name}.intact")
    try:
        path.rename(intact)
    except OSError:  # its folder is broken, too
        yield
        return
    try:
        WAYS[way](path, intact)
        yield
    finally:
        if path.is_dir():
            path.chmod(0o700)
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        intact.rename(path)


def report(server: DoctorCase, *arguments: str) -> dict[str, Any]:
    told = companion_here("doctor", "--json", *arguments, config=server.config_file)
    data: dict[str, Any] = json.loads(told.output)
    assert list(data) == KEYS
    assert all(list(finding) == FIELDS for finding in data["findings"])
    assert [data[severity] for severity in ("broken", "risky")] == [
        sum(finding["severity"] == severity for finding in data["findings"]) for severity in ("broken", "risky")
    ]
    assert (told.status, told.errors) == (STATUSES[data["verdict"]], "")
    return data


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_named(server: DoctorCase, intact: dict[str, Any], name: str) -> None:
    folder = server.directory.parent

    def check(way: str) -> None:
        with another_user(folder), broken(folder / name, way):
            found = [finding for finding in report(server)["findings"] if finding not in intact["findings"]]
        told = "\n".join(f"{finding['title']} {finding['where']}" for finding in found)
        assert "doctor.check_failed" not in {finding["id"] for finding in found}, told
        assert bool(re.search(FILES[name], told)) != (way in HARMLESS.get(name, ())), told

    assert_each(list(WAYS), check)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(FILES)), st.sampled_from(sorted(WAYS)), min_size=2, max_size=3),
    st.sampled_from(sorted(URLS)),
    st.sampled_from(["SQLITE", "MYSQL"]),
)
def test_whatever_is_broken_it_ends_with_a_report(
    server: DoctorCase, faults: dict[str, str], url: str, backend: str
) -> None:
    folder = server.directory.parent
    with another_user(folder), ExitStack() as undo:
        undo.callback(configure, server, "auto", "SQLITE")
        configure(server, URLS[url].format(folder), backend)
        for name, way in sorted(faults.items()):  # a folder before what is in it, which is copied with it
            undo.enter_context(broken(folder / name, way))
        found = {finding["id"] for finding in report(server)["findings"]}
        status = companion_here("status", "--json", config=server.config_file)
    assert "doctor.check_failed" not in found
    if status.output:
        assert (status.status, json.loads(status.output)["state"]) == (3, "stopped")
    else:
        assert (status.status, "Traceback" in status.errors) == (78, False)
