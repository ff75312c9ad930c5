"""`companion restore --replace`: on a new machine a backup takes the place of what is there, which is kept."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from peewee import Database

from companion import main
from regsvc.cli.transfer import tables
from regsvc.cli.transfer.backup import read_manifest, verify_files
from regsvc.core.exceptions import EX_CONFIG
from regsvc.database.failpoints import VARIABLE
from tests.cli.transfer.conftest import Run
from tests.cli.transfer.test_backup import PASSWORD, make_alice
from tests.conftest import MakeDaemon
from tests.support.authme.authme_like import AuthMeLike
from tests.support.command_line import companion, companion_here
from tests.support.contents import contents_of
from tests.support.daemon import Daemon
from tests.support.killing import run_killed_at
from tests.support.peers.mariadb import MariaDBServer

KILLED = -9


@pytest.fixture
def backup(place: Daemon, run: Run) -> Path:
    """The folder that is left of the old machine, with Alice in it."""
    make_alice(run)
    folder = place.directory / "monday"
    assert run("backup", str(folder)).status == 0
    return folder


@pytest.fixture
def fresh(
    place: Daemon, backup: Path, authme: AuthMeLike, daemon: MakeDaemon, mariadb: MariaDBServer
) -> Iterator[Daemon]:
    """The new machine: the companion has started there, on AuthMe's table, and Carol has registered meanwhile."""
    with mariadb.fresh_database() as elsewhere:
        url = elsewhere.url if authme.table.database.kind == "mariadb" else "auto"
        config = {"sync": {"every": "1 hour"}, "database": {"url": url}}
        fresh = daemon(config, directory=place.directory / "fresh")
        assert companion_here("migrate", config=fresh.config_file).status == 0
        made = companion_here(
            "users", "create", "Carol", "--password-stdin", config=fresh.config_file, typed="carols-s3cret\n"
        )
        assert made.status == 0, made
        yield fresh


def url_of(daemon: Daemon) -> str:
    [line] = [line for line in daemon.config_file.read_text().splitlines() if line.startswith("url = ")]
    written = line.partition('"')[2].rstrip('"')
    return f"sqlite:///{daemon.state_dir / 'companion.db'}" if written == "auto" else written


def names_of(daemon: Daemon) -> set[str]:
    listed = companion_here("users", "list", config=daemon.config_file)
    assert listed.status == 0, listed
    return {name for name in ("Alice", "Carol") if name in listed.output}


def kept_of(daemon: Daemon) -> Path:
    [kept] = daemon.state_dir.glob("replaced-*")
    return kept


def test_the_refusal_names_the_way_and_the_way_leads_home(backup: Path, fresh: Daemon) -> None:
    key = (fresh.state_dir / "installation.key").read_text()
    refused = companion_here("restore", str(backup), config=fresh.config_file)
    assert (refused.status, "companion restore --replace" in refused.errors) == (1, True), refused
    assert names_of(fresh) >= {"Carol"}
    done = companion_here("restore", "--replace", str(backup), config=fresh.config_file)
    assert done.status == 0, done
    kept = kept_of(fresh)
    assert f"what was there before is kept in {kept}" in done.output
    assert (kept / "installation.key").read_text() == key
    assert oct(kept.stat().st_mode & 0o777) == "0o700"
    assert (fresh.state_dir / "installation.key").read_text() == (backup / "installation.key").read_text()
    fresh.start()
    assert fresh.post("/api/login", {"username": "Alice", "password": PASSWORD}).status == 200
    fresh.stop()

    again = companion_here("restore", "--replace", str(kept / "backup"), config=fresh.config_file)
    if url_of(fresh).startswith("sqlite"):
        with closing(sqlite3.connect(kept / "companion.db")) as before:
            names = [name for (name,) in before.execute("SELECT username FROM regsvc_user")]
        assert "Carol" in names
    else:  # what is kept of a server is a backup, and so the way back
        assert again.status == 0, again
        assert "Carol" in names_of(fresh)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_killed_at_any_step_the_old_state_counts_or_the_new_one(backup: Path, fresh: Daemon) -> None:
    """Whatever opens it next finds one of both, whole, and the next attempt ends in the new one."""
    before, restored = contents_of(url_of(fresh)), None
    saved = {path.name: path.read_bytes() for path in fresh.state_dir.iterdir() if path.is_file()}
    arguments = ["restore", "--replace", str(backup), "--config", str(fresh.config_file)]
    found = []
    for step in count(1):
        status = run_killed_at(step, lambda: main(arguments))
        if status is not None:
            break
        found.append("Alice" if "Carol" not in names_of(fresh) else "Carol")
        if found[-1] == "Carol":
            assert contents_of(url_of(fresh)) == before
            assert not list(fresh.state_dir.glob("replaced-*"))
        assert main(arguments) == 0
        assert names_of(fresh) >= {"Alice"}
        assert "Carol" not in names_of(fresh)
        now = contents_of(url_of(fresh))
        assert restored in (None, now)
        restored = now
        kept = sorted(fresh.state_dir.glob("replaced-*"))[0]
        assert contents_of(f"sqlite:///{kept / 'companion.db'}") == before
        assert {name for name in saved if (kept / name).exists()} >= {"home.json", "installation.key", "signing.key"}
        reset(fresh, saved)
    assert (status, sorted(set(found), reverse=True)) == (0, ["Carol", "Alice"])
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_killed_where_nothing_was_before_nothing_begins_empty(backup: Path, fresh: Daemon) -> None:
    """The next command of a tired host starts no installation without Alice."""
    reset(fresh, {})
    arguments = ["restore", "--replace", str(backup), "--config", str(fresh.config_file)]
    assert run_killed_at(2, lambda: main(arguments)) is None
    told = companion_here("migrate", config=fresh.config_file)
    assert (told.status, "has not ended. Run it again" in told.errors) == (EX_CONFIG, True), told
    assert "a restore was interrupted" in companion_here("status", config=fresh.config_file).output
    assert main(arguments) == 0
    assert names_of(fresh) == {"Alice"}


def reset(fresh: Daemon, saved: dict[str, bytes]) -> None:
    """Put back what was there before."""
    for path in sorted(fresh.state_dir.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, content in saved.items():
        (fresh.state_dir / name).touch(mode=0o600)
        (fresh.state_dir / name).write_bytes(content)


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_killed_on_a_server_nothing_starts_until_the_next_attempt(
    backup: Path, fresh: Daemon, mariadb: MariaDBServer
) -> None:
    """Nor later, when the lease of the killed process is over, under which it made tables without a mark yet."""
    leases = f"`{urlsplit(url_of(fresh)).path[1:]}`.regsvc_lease"
    order = fresh.directory / "kill-at"
    arguments = ("restore", "--replace", str(backup))
    kills = 0
    for number in (1, 3, 10_000):
        order.write_text(f"after commit:{number}")
        done = companion(*arguments, config=fresh.config_file, environment={VARIABLE: str(order)})
        if done.status != KILLED:
            break
        kills += 1
        order.unlink()
        mariadb.run_as_root(f"UPDATE {leases} SET expires_at = expires_at - INTERVAL 10 MINUTE")
        listed = companion_here("users", "list", config=fresh.config_file)
        assert (listed.status, "restore, was interrupted" in listed.errors) == (EX_CONFIG, True), listed
    assert (done.status, kills >= 2) == (0, True), done
    assert names_of(fresh) == {"Alice"}
    kept = sorted(fresh.state_dir.glob("replaced-*"))[0]
    verify_files(kept / "backup", read_manifest(kept / "backup"))
    assert any(b"Carol" in file.read_bytes() for file in (kept / "backup/tables").iterdir())


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_tables_that_another_companion_uses_are_not_replaced(backup: Path, fresh: Daemon, daemon: MakeDaemon) -> None:
    """What it accepted meanwhile would be lost."""
    other = daemon({"database": {"url": url_of(fresh)}}, directory=fresh.directory / "other")
    other.state_dir.mkdir(exist_ok=True)
    for name in ("installation.key", "signing.key"):
        os.link(fresh.state_dir / name, other.state_dir / name)
    assert companion_here("migrate", config=other.config_file).status == 0
    synced = companion_here("sync", config=other.config_file)
    assert synced.status == 0, synced
    told = companion_here("restore", "--replace", str(backup), config=fresh.config_file)
    assert (told.status, "Another daemon that shares the database was running" in told.errors) == (1, True), told
    assert "Carol" in names_of(fresh)
    assert not [*fresh.state_dir.glob("replaced-*")]


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_copy_counts_as_complete_when_nobody_is_logged_in(
    place: Daemon, run: Run, backup: Path, fresh: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With that mark on a server a daemon starts, also if the restore is killed right after it."""
    place.start()
    assert place.post("/api/login", {"username": "Alice", "password": PASSWORD}).status == 200
    place.stop()
    assert run("backup", str(place.directory / "tuesday")).status == 0
    sessions, write = {}, tables.write_location

    def look(database: Database, name: str) -> None:
        sessions[name.partition(":")[0]] = database.execute_sql("SELECT COUNT(*) FROM regsvc_session").fetchone()[0]
        write(database, name)

    monkeypatch.setattr(tables, "write_location", look)
    done = companion_here("restore", "--replace", str(place.directory / "tuesday"), config=fresh.config_file)
    assert (done.status, sessions["copied to"]) == (0, 0), done


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_folder_of_the_hosts_is_left_alone(backup: Path, fresh: Daemon) -> None:
    """Into which they have unpacked the backup, beside the state of a companion that runs."""
    for name in ("restored", "restored.unfinished"):
        (fresh.state_dir / name).mkdir()
        (fresh.state_dir / name / "notes.txt").write_text("Olivia's")
    fresh.start()
    assert names_of(fresh) >= {"Carol"}
    fresh.stop()
    assert companion_here("restore", "--replace", str(backup), config=fresh.config_file).status == 0
    assert names_of(fresh) >= {"Alice"}
    for name in ("restored", "restored.unfinished"):
        assert (fresh.state_dir / name / "notes.txt").read_text() == "Olivia's"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_tables_that_survived_are_not_replaced(place: Daemon, backup: Path, daemon: MakeDaemon) -> None:
    """Only the machine with the keys has died: the database is on another one."""
    fresh = daemon({"sync": {"every": "1 hour"}}, directory=place.directory / "fresh")
    told = companion_here("restore", "--replace", str(backup), config=fresh.config_file)
    assert (told.status, "copy installation.key and signing.key from the backup" in told.errors) == (1, True), told
    assert not [*fresh.state_dir.glob("*")]
    for name in ("installation.key", "signing.key"):
        os.link(backup / name, fresh.state_dir / name)
    fresh.start()
    assert fresh.post("/api/login", {"username": "Alice", "password": PASSWORD}).status == 200


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_file_elsewhere_is_kept_beside_itself(place: Daemon, backup: Path, daemon: MakeDaemon) -> None:
    file = place.directory / "disk/ours.db"
    file.parent.mkdir()
    fresh = daemon({"database": {"url": f"sqlite:///{file}"}}, directory=place.directory / "fresh")
    assert companion_here("migrate", config=fresh.config_file).status == 0
    before = contents_of(f"sqlite:///{file}")
    assert companion_here("restore", "--replace", str(backup), config=fresh.config_file).status == 0
    assert names_of(fresh) == {"Alice"}
    [kept] = file.parent.glob("ours.db.replaced-*")
    assert contents_of(f"sqlite:///{kept}") == before


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_backup_holds_the_config(place: Daemon, backup: Path, fresh: Daemon) -> None:
    assert (backup / "companion.toml").read_text() == place.config_file.read_text()
    done = companion_here("restore", "--replace", str(backup), config=fresh.config_file)
    assert f"the config of then is {backup / 'companion.toml'}" in done.output
