"""R46: a bad disk, file or table causes a clear message, no loss and no crash loop."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeDaemon
from tests.support.authme.authme_database import DatabaseKind, SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.command_line import companion
from tests.support.daemon import READY, Daemon, Reply
from tests.support.mounts import run_beside, seen_by, serve_with_state_on, serve_with_state_read_only
from tests.support.peers.smtp import MailServer
from tests.support.quick_start import PROGRAM
from tests.support.stack import GENEROUS, find_code, has_code
from tests.support.watching import ask_until, scrape

EX_CONFIG = 78
EX_TEMPFAIL = 75
OLIVIA = {"username": "Olivia", "password": "olivias-secret"}
ANSWERS_THE_SAME = "/api/config"
READINESS = "/health/ready"


@pytest.fixture
def database_kind() -> str:
    """These tests are about files; `test_outages.py` has a MariaDB that cannot write."""
    return "sqlite"


def words_of(daemon: Daemon) -> str:
    return "\n".join(daemon.log)


def start_in_vain(daemon: Daemon) -> str:
    """Assert that the daemon exits with 78, which systemd does not restart; return its output."""
    daemon.spawn()
    assert daemon.wait_for_end() == EX_CONFIG
    assert not any(READY in line for line in daemon.output)
    assert "Traceback" not in words_of(daemon)
    return words_of(daemon)


# --- the state directory ---


def test_a_read_only_state_directory_is_told_at_the_first_start(
    daemon: MakeDaemon, authme: AuthMeLike, tmp_path: Path
) -> None:
    state = tmp_path / "daemon" / "state"
    place = daemon(command=serve_with_state_on(state, "ro"))
    said = start_in_vain(place)
    assert str(state) in said
    assert "Read-only file system" in said


# --- the game's files ---


def test_a_plugins_config_that_breaks_stops_neither_a_run_nor_the_next_start(
    daemon: MakeDaemon, authme: AuthMeLike, game_server: GameServer
) -> None:
    """AuthMe itself stops the game server at such a config, and until then runs with the values from before."""
    authme.register(OLIVIA["username"], OLIVIA["password"])
    intact = game_server.authme_config.read_bytes()
    place = daemon(GENEROUS).start()
    game_server.authme_config.write_bytes(b"DataSource:\n    mySQLPassword: 's3cret\n")
    assert place.wait_for_log("has changed but cannot be used; the old values stay", 10), words_of(place)
    place.stop()
    place.start()
    assert "config.yml cannot be used; the values of before stay" in words_of(place)
    assert "s3cret" not in words_of(place)
    assert place.post("/api/login", OLIVIA).status == 200
    game_server.authme_config.write_bytes(intact + "# 数据库\n".encode("gbk"))
    told = len(place.log)
    place.stop()
    place.start()
    assert "cannot be used" not in "\n".join(place.log[told:])
    assert place.post("/api/login", OLIVIA).status == 200


@pytest.fixture
def small(daemon: MakeDaemon, authme: AuthMeLike, tmp_path: Path) -> Daemon:
    """A daemon whose state directory has two megabytes."""
    authme.register(OLIVIA["username"], OLIVIA["password"])
    command = serve_with_state_on(tmp_path / "daemon" / "state", "size=2m")
    return daemon(GENEROUS, command=command).start()


def ask_for_code(daemon: Daemon, smtp: MailServer, email: str) -> str:
    assert daemon.post("/api/verify/send", {"email": email}).status == 200
    return find_code(smtp.wait_for(email, counts=has_code).text)


def application(name: str, email: str, code: str) -> dict[str, Any]:
    return {"username": name, "email": email, "password": f"{name}-secret", "code": code}


def test_a_full_disk_is_answered_with_503_until_there_is_room(small: Daemon, smtp: MailServer) -> None:
    code = ask_for_code(small, smtp, "alice@example.org")
    filler = seen_by(small.pid, small.state_dir) / "filler"
    fill(filler)
    assert_unwritable(small)  # though nobody has written, and no sync runs

    refused = ask_until(
        lambda: small.post("/api/verify/send", {"email": "bob@example.org"}), lambda reply: reply.status != 200
    )
    assert (refused.status, refused.code) == (503, "database_away"), refused.text
    assert refused.json["fault"] == "unwritable"
    assert "full or read-only" in refused.json["message"]
    assert int(refused.headers["Retry-After"]) > 0
    # a checkpoint meanwhile makes room in the log for one more
    ask_until(lambda: refill_and_ask(small, filler), lambda reply: reply.status == 503)
    reply = small.post("/api/register", application("Alice", "alice@example.org", code))
    assert (reply.status, reply.code) == (503, "database_away"), reply.text
    causes = ("No space left on device", "database or disk is full")  # a look at the disk, or a write that failed
    assert any(cause in line for line in small.log for cause in causes)
    assert not [line for line in small.log if "cannot rollback" in line]
    banned = run_companion(small, "users", "ban", OLIVIA["username"], "--reason", "griefing")
    assert banned.returncode == 1
    assert "full or read-only" in banned.stderr
    assert str(small.state_dir) in banned.stderr
    assert "disk is full" in banned.stderr
    assert "cannot rollback" not in banned.stderr
    assert "machine.disk_low" in broken_findings(small)
    assert small.get(ANSWERS_THE_SAME).status == 200
    assert small.get("/api/user/status", {"username": "Alice"}).json["data"] == {"registered": False}

    filler.unlink()
    ask_until(lambda: small.get(READINESS), lambda reply: reply.status == 200)
    assert scrape(small).of("companion_database_writable") == 1
    assert small.wait_for_log("the database can be written again")
    assert small.post("/api/register", application("Alice", "alice@example.org", code)).status == 201
    assert small.get("/api/user/status", {"username": "Alice"}).json["data"]["status"] == "pending"


def assert_unwritable(daemon: Daemon) -> None:
    """Wait until readiness, metrics and the log tell that the database accepts no changes."""
    unready = ask_until(lambda: daemon.get(READINESS), lambda reply: reply.status == 503)
    assert (unready.code, unready.json["fault"], unready.json["writable"]) == ("database_away", "unwritable", False)
    assert str(daemon.state_dir) not in unready.text
    assert scrape(daemon).of("companion_database_writable") == 0
    assert daemon.wait_for_log("the database cannot be written: its disk is full or read-only")


def run_companion(daemon: Daemon, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that sees the state directory as the daemon does."""
    command = [sys.executable, str(PROGRAM), *arguments, "--config", str(daemon.config_file)]
    return run_beside(daemon.pid, *command)


def broken_findings(daemon: Daemon) -> list[str]:
    """The ids of what the doctor calls broken."""
    report = json.loads(run_companion(daemon, "doctor", "--json").stdout)
    return [finding["id"] for finding in report["findings"] if finding["severity"] == "broken"]


def test_a_read_only_disk_is_told_and_used_again_once_it_may_be_written(
    daemon: MakeDaemon, authme: AuthMeLike, tmp_path: Path
) -> None:
    daemon(GENEROUS).start().stop()
    place = daemon(GENEROUS, command=serve_with_state_read_only(tmp_path / "daemon" / "state"))
    place.spawn()
    assert place.wait_for_log("the database is tried again in")
    assert place.wait_for_log("Read-only file system")
    assert_unwritable(place)
    assert scrape(place).of("companion_database_up") == 0, "its tables may be of an earlier version"
    assert run_beside(place.pid, "mount", "-o", "remount,bind,rw", str(place.state_dir)).returncode == 0
    assert place.wait_for_output(READY, 30)
    assert place.get(READINESS).status == 200
    assert place.wait_for_log("the database can be written again")


def refill_and_ask(small: Daemon, filler: Path) -> Reply:
    """Fill what is left, which is too little for a code's mail and may do for something else, and ask for a code."""
    fill(filler)
    return small.post("/api/verify/send", {"email": "carol@example.org"})


def fill(filler: Path) -> None:
    """Fill the remaining space."""
    with filler.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def test_a_file_of_ours_that_is_no_database_is_told_and_not_touched(daemon: MakeDaemon, authme: AuthMeLike) -> None:
    place = daemon()
    place.start().stop()
    for leftover in place.state_dir.glob("companion.db-*"):
        leftover.unlink()
    ours = place.state_dir / "companion.db"
    ours.write_bytes(b"somebody's shopping list\n" * 400)
    before = ours.read_bytes()
    said = start_in_vain(place)
    assert f"sqlite:{ours}" in said
    assert "not a database" in said
    assert ours.read_bytes() == before


# --- the game server's files ---


@pytest.mark.parametrize("database_kind", ["mariadb", "sqlite"])
def test_a_folder_of_the_game_that_is_mounted_late(
    daemon: MakeDaemon, authme: AuthMeLike, game_server: GameServer, database_kind: DatabaseKind
) -> None:
    """AuthMe's config says where our database is: the companion neither takes another one nor gives up for good."""
    authme.register(OLIVIA["username"], OLIVIA["password"])
    place = daemon(GENEROUS).start()
    place.stop()
    backup = str(place.directory / "backup")
    assert companion("backup", backup, config=place.config_file).status == 0
    game = game_server.directory
    kept = game.rename(game.with_suffix(".unmounted"))
    for missing in (game, game / "plugins"):  # what it is mounted on may be there
        if database_kind == "mariadb":
            place.log.clear()
            place.spawn()
            assert place.wait_for_end() == EX_TEMPFAIL, "systemd tries again"
            assert f"{missing} is missing (not mounted yet?)" in place.log[-1]
            assert "migrate" not in words_of(place)
            told = companion("restore", backup, config=place.config_file)
            assert (told.status, f"{missing} is missing" in told.errors) == (1, True)
        told = companion("migrate", "--to", "auto", config=place.config_file)
        assert (told.status, f"{missing} is missing" in told.errors) == (1, True)
        game.mkdir(exist_ok=True)
    if database_kind == "sqlite":
        place.start()  # our database is where it was, and the bridge waits
        place.stop()
    assert (place.state_dir / "companion.db").exists() == (database_kind == "sqlite")
    game.rmdir()
    kept.rename(game)
    place.start()
    assert place.post("/api/admin/login", OLIVIA).status == 200


def test_a_list_of_operators_that_cannot_be_read_makes_nobody_one(
    daemon: MakeDaemon, authme: AuthMeLike, game_server: GameServer
) -> None:
    authme.register(OLIVIA["username"], OLIVIA["password"])
    ops = game_server.directory / "ops.json"
    kept = ops.rename(ops.with_suffix(".kept"))
    ops.mkdir()  # unreadable even for root
    place = daemon(GENEROUS).start()
    assert place.get(ANSWERS_THE_SAME).status == 200
    assert place.post("/api/admin/login", OLIVIA).status in (401, 403)
    assert place.wait_for_log("ops.json")
    ops.rmdir()
    kept.rename(ops)
    assert place.post("/api/admin/login", OLIVIA).status == 200


def test_a_table_that_authme_has_not_made_yet_is_waited_for(
    daemon: MakeDaemon, authme: AuthMeLike, authme_table: AuthMeTable
) -> None:
    authme.register(OLIVIA["username"], OLIVIA["password"])
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} RENAME TO elsewhere")
    place = daemon(GENEROUS).start()
    assert place.wait_for_log("Start the game server with AuthMe once")
    reply = place.post("/api/admin/login", OLIVIA)
    assert (reply.status, reply.code) == (503, "players_away")
    authme_table.database.execute(f"ALTER TABLE elsewhere RENAME TO {authme_table.name}")
    assert place.post("/api/admin/login", OLIVIA).status == 200


def test_an_authme_file_that_is_no_database_is_waited_for(
    daemon: MakeDaemon, authme: AuthMeLike, authme_table: AuthMeTable
) -> None:
    authme.register(OLIVIA["username"], OLIVIA["password"])
    assert isinstance(authme_table.database, SqliteFile)
    path = authme_table.database.path
    kept = path.rename(path.with_suffix(".kept"))
    path.write_bytes(b"somebody's shopping list\n" * 400)
    before = path.read_bytes()
    place = daemon(GENEROUS).start()
    assert place.wait_for_log("the sync is paused")
    assert place.post("/api/admin/login", OLIVIA).code == "players_away"
    assert path.read_bytes() == before
    assert companion("sync", config=place.config_file).status == 1
    kept.replace(path)
    assert place.post("/api/admin/login", OLIVIA).status == 200
