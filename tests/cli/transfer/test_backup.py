"""`companion backup` and `companion restore`: a backup is complete, or it is not taken for one."""

import json
import signal
import sqlite3
import stat
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from regsvc.cli.transfer.tables import list_tables
from regsvc.database.engine import open_database
from regsvc.database.models import GENERATED, MODELS
from tests.cli.transfer.conftest import Run
from tests.conftest import MakeDaemon
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.game_server import GameServer
from tests.support.command_line import companion_here
from tests.support.contents import contents_of
from tests.support.daemon import Daemon, clean_environment
from tests.support.peers.mariadb import MariaDBServer
from tests.support.quick_start import quick_start
from tests.support.services import Away
from tests.support.typed_dates import type_date
from tests.support.watching import ask_until

PASSWORD = "alices-s3cret"


def make_alice(run: Run) -> None:
    assert run("migrate").status == 0
    made = run("users", "create", "Alice", "--email", "alice@example.org", "--password-stdin", typed=f"{PASSWORD}\n")
    assert made.status == 0, made


def manifest_of(folder: Path) -> Mapping[str, object]:
    manifest: dict[str, object] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return manifest


def url_of(place: Daemon, authme: AuthMeLike) -> str:
    database = authme.table.database
    if isinstance(database, SqliteFile):
        return f"sqlite:///{place.state_dir / 'companion.db'}"
    return str(database.database.url)  # type: ignore[attr-defined]


def count_waiting_mails(url: str) -> int:
    database = open_database(url, timedelta(seconds=5))
    with database.connection_context():
        return int(database.execute_sql("SELECT COUNT(*) FROM regsvc_outbox WHERE done_at IS NULL").fetchone()[0])


def test_a_backup_taken_while_people_play_comes_back(
    place: Daemon, run: Run, authme: AuthMeLike, daemon: MakeDaemon, game_server: GameServer, mariadb: MariaDBServer
) -> None:
    make_alice(run)
    place.start()
    assert place.post("/api/login", {"username": "Alice", "password": PASSWORD}).status == 200
    ask_until(lambda: count_waiting_mails(url_of(place, authme)), lambda count: count == 0)  # none changes meanwhile
    folder = place.directory / "backups" / "monday"
    done = run("backup", str(folder))
    assert done.status == 0, done
    assert "the backup holds keys" in done.errors
    before = contents_of(url_of(place, authme))
    assert authme.login("Alice", PASSWORD)
    place.stop()
    told = manifest_of(folder)["tables"]
    assert isinstance(told, dict)
    assert {name: (table["rows"], table["digest"]) for name, table in told.items()} == before

    # the machine is gone; AuthMe's table is left as it was
    with mariadb.fresh_database() as elsewhere:
        url = elsewhere.url if authme.table.database.kind == "mariadb" else "auto"
        again = daemon({"sync": {"every": "1 hour"}, "database": {"url": url}}, directory=place.directory / "again")
        restored = companion_here("restore", str(folder), config=again.config_file)
        assert restored.status == 0, restored
        home = elsewhere.url if url != "auto" else f"sqlite:///{again.state_dir / 'companion.db'}"
        after = dict(contents_of(home))
        assert after.pop("regsvc_session")[0] == 0
        assert after == {name: table for name, table in before.items() if name != "regsvc_session"}
        again.start()
        assert again.post("/api/login", {"username": "Alice", "password": PASSWORD}).status == 200
        again.stop()
        twice = companion_here("restore", str(folder), config=again.config_file)
        assert (twice.status, "is not empty" in twice.errors) == (1, True)


def test_a_backup_is_for_us_alone_and_whole(place: Daemon, run: Run, authme: AuthMeLike) -> None:
    make_alice(run)
    shelf = place.directory / "shelf"
    shelf.mkdir()
    for _evening in range(2):
        assert run("backup", str(shelf / f"{_evening}")).status == 0
    assert run("backup", str(shelf)).status == 0  # a new folder, named after the time
    for folder in shelf.iterdir():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
        for name in ("installation.key", "signing.key"):
            assert (folder / name).read_text().strip() == (place.state_dir / name).read_text().strip()
        if authme.table.database.kind == "sqlite":
            with closing(sqlite3.connect(folder / "authme.db")) as copy:
                assert copy.execute("SELECT realname FROM authme").fetchall() == [("Alice",)]
            assert not [path for path in folder.iterdir() if path.name.endswith(("-wal", "-shm", "-journal"))]
        else:
            assert (folder / "tables" / "regsvc_user.jsonl").read_text("utf-8").count("\n") == 2
    there = run("backup", str(shelf / "0" / "manifest.json"))
    assert (there.status, "Traceback" in there.errors) == (1, False)


def test_a_backup_that_was_damaged_is_refused(place: Daemon, run: Run, daemon: MakeDaemon) -> None:
    make_alice(run)
    folder = place.directory / "backup"
    assert run("backup", str(folder)).status == 0
    [victim] = [*folder.glob("companion.db"), *folder.glob("tables/regsvc_user.jsonl")]
    content = victim.read_bytes()
    victim.write_bytes(content.replace(b"alice", b"mally", 1))
    again = daemon({}, directory=place.directory / "again")
    for _try in range(2):
        told = companion_here("restore", str(folder), config=again.config_file)
        assert (told.status, "damaged or was changed" in told.errors) == (1, True)
    victim.unlink()
    assert "is missing" in companion_here("restore", str(folder), config=again.config_file).errors
    assert not again.state_dir.exists()
    for nothing in (place.directory, folder / "manifest.json"):
        told = companion_here("restore", str(nothing), config=again.config_file)
        assert (told.status, "is not a backup" in told.errors) == (1, True)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_backup_of_one_kind_comes_back_on_the_other(
    place: Daemon, run: Run, daemon: MakeDaemon, mariadb: MariaDBServer
) -> None:
    make_alice(run)
    assert run("registration", "close").status == 0
    with closing(sqlite3.connect(place.state_dir / "companion.db")) as ours, ours:
        ours.execute(
            "INSERT INTO regsvc_team_chat_message (chat, user_id, username_key, shown, version, is_open, changed_at)"
            " VALUES ('team', 1, 'alice', 'approved', '1', 0, '2031-05-04 12:00:00.000')"
        )
    folder, second = place.directory / "one", place.directory / "two"
    assert run("backup", str(folder)).status == 0
    with mariadb.fresh_database() as elsewhere:
        there = daemon({"database": {"url": elsewhere.url}}, directory=place.directory / "there")
        assert companion_here("restore", str(folder), config=there.config_file).status == 0
        assert companion_here("backup", str(second), config=there.config_file).status == 0
    with closing(sqlite3.connect(second / "authme.db")) as copy:  # AuthMe stays on SQLite
        assert copy.execute("SELECT realname FROM authme").fetchall() == [("Alice",)]
    back = daemon({}, directory=place.directory / "back")
    assert companion_here("restore", str(second), config=back.config_file).status == 0
    assert "Alice" in companion_here("users", "list", config=back.config_file).output
    assert "closed" in companion_here("registration", "show", config=back.config_file).output
    with closing(sqlite3.connect(back.state_dir / "companion.db")) as ours:
        moved = ours.execute("SELECT username_key, changed_at FROM regsvc_team_chat_message").fetchall()
    assert moved == [("alice", "2031-05-04 12:00:00.000")]


def test_every_column_that_has_to_be_filled_is_copied() -> None:
    copied = {table.name: table.columns for table in list_tables()}
    needed = {
        (model._meta.table_name, field.column_name)
        for model in MODELS
        if model._meta.table_name in copied
        for field in model._meta.sorted_fields
        if not field.null and field.column_name not in GENERATED
    }
    assert needed, "the models declare columns"
    assert {(table, column) for table, column in needed if column not in copied[table]} == set()


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_restore_overwrites_neither_state_nor_keys(place: Daemon, run: Run, daemon: MakeDaemon) -> None:
    make_alice(run)
    folder = place.directory / "backup"
    assert run("backup", str(folder)).status == 0
    place.start()
    running = run("restore", str(folder))
    assert (running.status, "stop it first" in running.errors) == (1, True)
    place.stop()
    other = daemon({}, directory=place.directory / "other")
    assert companion_here("migrate", config=other.config_file).status == 0
    told = companion_here("restore", str(folder), config=other.config_file)
    assert (told.status, "another installation" in told.errors) == (1, True)
    keyed = daemon({}, directory=place.directory / "keyed")
    keyed.state_dir.mkdir(mode=0o700)
    (keyed.state_dir / "installation.key").touch(mode=0o600)
    (keyed.state_dir / "installation.key").write_text("a key of another installation, long enough\n")
    told = companion_here("restore", str(folder), config=keyed.config_file)
    assert (told.status, "another installation key" in told.errors) == (1, True)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_killed_in_the_middle_there_is_no_backup(place: Daemon, run: Run, authme: AuthMeLike) -> None:
    make_alice(run)
    shelf = place.directory / "shelf"
    shelf.mkdir()
    with Away(authme.table):  # another process locks AuthMe's file, so that the backup waits
        command = ("backup", str(shelf), "--config", str(place.config_file))
        process = quick_start().start(command, clean_environment(), place.directory, (0, 1, 2))
        deadline = time.monotonic() + 20
        while not list(shelf.glob("*.unfinished/signing.key")):
            assert time.monotonic() < deadline
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it waited until then"
    [left] = shelf.iterdir()
    assert left.name.endswith(".unfinished")
    assert "is not a backup" in run("restore", str(left)).errors
    assert run("backup", str(shelf)).status == 0
    [made] = shelf.iterdir()
    assert not made.name.endswith(".unfinished")


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_date_that_is_none_stops_no_backup_and_no_restore(
    place: Daemon, run: Run, daemon: MakeDaemon, mariadb: MariaDBServer
) -> None:
    """It was typed in a database of an older version: the file keeps it, and the restored database has none."""
    make_alice(run)
    ours = SqliteFile(place.state_dir / "companion.db")
    ours.execute("UPDATE regsvc_user SET status = 'banned', reason = CAST(X'67726574E4' AS TEXT)")  # typed in Latin-1
    type_date(ours, "ban_expires_at", "01.06.2031", "alice")
    folder = place.directory / "monday"
    done = run("backup", str(folder))
    assert done.status == 0, done
    with mariadb.fresh_database() as elsewhere:
        for number, url in enumerate(("auto", elsewhere.url)):
            again = daemon({"database": {"url": url}}, directory=place.directory / f"again-{number}")
            restored = companion_here("restore", str(folder), config=again.config_file)
            assert restored.status == 0, restored
            assert restored.errors.count("01.06.2031") == 1, restored.errors
            assert json.loads(companion_here("users", "show", "Alice", config=again.config_file).output)["status"] == (
                "banned"
            )
