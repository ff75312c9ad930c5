"""The commands of `companion`, as a host runs them."""

import getpass
import json
import re
import signal
import socket
import stat
import time
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from plugin_bridge.authme.players import lock_text
from regsvc import __version__
from regsvc.cli.command_line import COMMANDS
from tests.conftest import MakeDaemon
from tests.support.authme.authme_database import MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, dump_table, find_player, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.command_line import Finished, companion, companion_here
from tests.support.daemon import READY, START_TIMEOUT, Daemon
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.smtp import MailServer

EX_CONFIG = 78
EX_TEMPFAIL = 75
EX_USAGE = 2
SECONDS_TO_STOP = 10.0
OTHER_KEY = "another installation's key, which is long enough"

Run = Callable[..., Finished]


def refused(finished: Finished, *words: str) -> bool:
    """Assert that it exited with 78 and a message, without a traceback."""
    assert finished.status == EX_CONFIG, finished
    assert "Traceback" not in finished.errors
    sentence = next(line for line in finished.errors.splitlines() if line.startswith("companion: "))
    for word in words:
        assert word in finished.errors[finished.errors.index(sentence) :]
    return True


# --- without a database ---


def test_the_version_is_told() -> None:
    assert companion("version") == Finished(0, f"companion {__version__}\n", "")


def test_help_names_every_command() -> None:
    told = companion_here("--help")
    assert told.status == 0
    for name, text in COMMANDS.items():
        assert name in told.output
        assert text.split()[0] in told.output


def test_what_is_no_command_is_explained() -> None:
    for arguments in (("users", "dance"), ("sync", "--slowly")):
        told = companion_here(*arguments)
        assert (told.status, told.output) == (EX_USAGE, "")
        assert told.errors.startswith("usage: companion")
    assert '"5 minutes"' in companion_here("users", "ban", "Alice", "--for", "a while").errors


def test_a_broken_config_is_refused_with_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "companion.toml"
    config.write_text('[server]\nport = "many"\n[sync]\nevry = "1 minute"\n')
    for command in ("serve", "sync"):
        told = companion(command, config=config)
        assert refused(told, str(config), "[server] port", '"many"', "[sync]", '"evry"', '"every"')
    assert refused(companion("serve", config=tmp_path / "nowhere.toml"), "there is no such file", "nowhere.toml")


# --- check-config ---


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_check_config_tells_what_the_config_leads_to(run: Run, place: Daemon, game_server: GameServer) -> None:
    told = run("check-config")
    assert (told.status, told.errors) == (0, "")
    assert f"config: {place.config_file}" in told.output
    assert f"AuthMe: {game_server.authme_config}, SHA256" in told.output
    assert "operators: 1" in told.output
    assert "authme-password" not in told.output


# --- migrate, sync, unlock-all ---


def test_migrate_says_what_it_did(run: Run) -> None:
    first = run("migrate")
    assert first.status == 0
    assert first.output.startswith("applied 0100 baseline\n")
    assert run("migrate").output == "nothing to migrate\n"


def report_of(finished: Finished, status: int = 0) -> dict[str, Any]:
    assert finished.status == status, finished
    report: dict[str, Any] = json.loads(finished.output)
    return report


def test_a_sync_without_authmes_table_tells_so(run: Run, authme_table: AuthMeTable) -> None:
    authme_table.database.execute(f"DROP TABLE {authme_table.name}")
    run("migrate")
    [error] = report_of(run("sync"), 1)["errors"]
    assert "Start the game server with AuthMe once" in error["error"]
    told = run("unlock-all")
    assert (told.status, "Start the game server" in told.errors) == (1, True)


def test_unlock_all_unlocks_everything(run: Run, authme: AuthMeLike) -> None:
    authme.register("Bob", "bobs-password")
    insert_player(authme.table, username="eve", realname="Eve", password=lock_text("x" * 200), regdate=1)
    before = dump_table(authme.table)
    run("migrate")
    assert run("users", "ban", "Bob").status == 0
    assert not authme.login("Bob", "bobs-password")
    told = run("release")  # the older name of unlock-all
    assert told.status == 1
    assert told.output.startswith(
        "unlocked 1 player\ndo not start the companion again: it would lock them again\ncannot unlock eve: "
    )
    assert dump_table(authme.table) == before


# --- users ---


def test_a_users_life(run: Run, authme: AuthMeLike) -> None:
    run("migrate")
    created = run("users", "create", "Alice", "--email", "alice@example.org", "--password-stdin", typed="s3cret-one\n")
    assert created == Finished(0, "Alice: approved\n", "")
    assert authme.login("Alice", "s3cret-one")
    authme.quit("Alice")

    shown = json.loads(run("users", "show", "alice").output)
    assert (shown["username"], shown["email"], shown["plugin"]) == ("Alice", "alice@example.org", "synced")
    listed = run("users", "list", "--status", "approved")
    assert re.fullmatch(r"Alice +approved +synced +alice@example\.org\n", listed.output)
    assert listed.errors.startswith("1 user, page 1 of 1\ninstallation: /")
    assert run("users", "list", "--status", "pending").output == ""
    assert run("users", "list", "--search", "ALI").output == listed.output
    assert run("users", "list", "--page", "9").errors.startswith("1 user, there is no page 9\n")

    assert run("users", "ban", "ALICE", "--reason", "griefing", "--for", "3 days") == Finished(0, "Alice: banned\n", "")
    assert json.loads(run("users", "show", "Alice").output)["reason"] == "griefing"
    assert not authme.login("Alice", "s3cret-one")
    assert run("users", "approve", "Alice").status == 1
    assert run("users", "unban", "Alice") == Finished(0, "Alice: approved\n", "")

    changed = run("users", "password", "Alice", "--password-stdin", typed="s3cret-two\n")
    assert changed == Finished(0, "Alice: approved\n", "")
    assert authme.login("Alice", "s3cret-two")

    deleted = run("users", "delete", "Alice", "--silent")
    assert (deleted.status, deleted.output) == (0, "Alice: deleted\n")
    assert deleted.errors.startswith("warning: still_online_rcon_off: the player seems to be in the game")
    assert find_player(authme.table, "alice") is None
    for action in ("show", "ban", "delete", "password"):
        typed = "s3cret-two\n" if action == "password" else ""
        told = run("users", action, "Alice", *(["--password-stdin"] if typed else []), typed=typed)
        assert (told.status, told.output) == (1, "")
        assert told.errors.startswith("companion: ")


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_link_to_set_a_password_is_made_on_the_command_line(run: Run, place: Daemon, authme: AuthMeLike) -> None:
    run("migrate")
    run("users", "create", "Alice", "--password-stdin", typed="s3cret-one\n")
    told = run("users", "password", "alice", "--link")
    assert told.status == 0
    assert told.errors.startswith("give it to Alice only: it works once, until ")
    token = told.output.strip().partition("/set-password#token=")[2]
    assert companion_here("users", "password", "Alice", "--link", "--password-stdin").status == EX_USAGE
    assert run("users", "password", "Bob", "--link").status == 1
    place.start()
    assert place.post("/api/password/reset", {"token": token, "newPassword": "s3cret-two"}).status == 200
    assert authme.login("Alice", "s3cret-two")


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_an_operator_is_made_on_the_command_line(run: Run, place: Daemon) -> None:
    run("migrate")
    assert run("users", "create", "Olivia", "--password-stdin", typed="olivias-secret\n").status == 0
    place.start()
    login = place.post("/api/admin/login", {"username": "Olivia", "password": "olivias-secret"})
    assert login.status == 200
    audits = place.get("/api/admin/audits", {"action": "user.registered"}, token=login.json["token"]).json["audits"]
    assert [entry["operator"] for entry in audits] == [f"cli:{getpass.getuser()}"]


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize(
    ("name", "email", "password"),
    [("a b", "a@example.org", "s3cret-one"), ("Alice", "nobody", "s3cret-one"), ("Alice", "a@example.org", "123456")],
    ids=["name", "e-mail", "password"],
)
def test_the_rules_hold_on_the_command_line(run: Run, name: str, email: str, password: str) -> None:
    run("migrate")
    told = run("users", "create", name, "--email", email, "--password-stdin", typed=f"{password}\n")
    assert (told.status, told.output) == (1, "")
    assert told.errors.startswith("companion: ")
    assert password not in told.errors
    assert run("users", "list").output == ""


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_user_is_shown_among_many_that_are_called_alike(run: Run, authme: AuthMeLike) -> None:
    for number in range(110):
        insert_player(authme.table, username=f"bob{number}", realname=f"Bob{number}", password="x", regdate=1)
    insert_player(authme.table, username="bob", realname="Bob", password="x", regdate=1)
    run("migrate")
    report_of(run("sync"))
    assert json.loads(run("users", "show", "BOB").output)["username"] == "Bob"
    assert run("users", "list", "--page", "2").output.count("\n") == 11
    assert run("users", "list", "--page", "0").status == 1


# --- mail-test ---


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_mail_is_sent_at_once(run: Run, smtp: MailServer) -> None:
    sent = run("mail-test", "alice@example.org")
    assert (sent.status, sent.output) == (0, "sent to alice@example.org\n")
    assert len(smtp.letters_to("alice@example.org")) == 1
    assert run("mail-test", "nobody").status == 1
    smtp.stop()
    told = run("mail-test", "alice@example.org")
    assert told.status == 1
    assert told.output.startswith("not sent: ")
    smtp.start()


# --- serve ---


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_the_daemon_says_once_that_it_is_ready_and_stops_when_told(place: Daemon) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        place.start()
        assert place.get("/api/config").status == 200
        begun = time.monotonic()
        place.send(number)
        assert place.wait_for_end() == 0
        assert time.monotonic() - begun < SECONDS_TO_STOP
        assert place.output == [f"{READY}{place.base_url}"]


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_port_in_use_is_told(place: Daemon) -> None:
    with closing(socket.create_server(("127.0.0.1", place.port))):
        told = companion("serve", config=place.config_file)
    assert told.status == EX_TEMPFAIL
    assert str(place.port) in told.errors
    assert READY not in told.output


def test_what_is_kept_is_for_us_alone(place: Daemon, authme_table: AuthMeTable) -> None:
    place.start().stop()
    state = place.state_dir
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    kept = {file.name for file in state.iterdir()}
    assert kept >= {"installation.key", "signing.key", "home.json"}
    assert ("companion.db" in kept) == (authme_table.database.kind == "sqlite")
    for name in ("installation.key", "signing.key"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o600


def test_our_tables_stand_where_authmes_is(place: Daemon, authme_table: AuthMeTable) -> None:
    before = tables_in(authme_table)
    place.start().stop()
    ours = {table for table in tables_in(authme_table) if table.startswith("regsvc_")}
    assert bool(ours) == (authme_table.database.kind == "mariadb")
    assert tables_in(authme_table) - ours == before


def tables_in(table: AuthMeTable) -> set[str]:
    listing = "SELECT name FROM sqlite_master" if table.database.kind == "sqlite" else "SHOW FULL TABLES WHERE 1"
    return {str(next(iter(row.values()))) for row in table.database.query(listing)}


# --- another database than at the first start ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_an_authme_that_moved_to_mysql_is_refused(
    place: Daemon, run: Run, game_server: GameServer, authme_table: AuthMeTable
) -> None:
    on_sqlite = AuthMeTable(SqliteFile(game_server.authme_directory / "authme.db"))
    game_server.install_authme(on_sqlite)
    place.start().stop()
    game_server.install_authme(authme_table)
    for command in ("serve", "sync", "migrate"):
        told = companion(command, config=place.config_file)
        assert refused(told, f"sqlite:{place.state_dir}/companion.db", "mysql:127.0.0.1", "Set database.url")
    assert tables_in(authme_table) == {"authme"}
    game_server.install_authme(on_sqlite)
    assert run("migrate").output == "nothing to migrate\n"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_another_name_for_this_machine_is_the_same_home(run: Run, game_server: GameServer) -> None:
    assert run("migrate").status == 0
    game_server.change_authme({"DataSource.mySQLHost": "localhost"})
    assert run("migrate").output == "nothing to migrate\n"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_database_on_another_server_than_authmes_is_refused(daemon: MakeDaemon, authme_table: AuthMeTable) -> None:
    elsewhere = daemon({"database": {"url": "mysql://authme:secret-word@db.example.org/authme"}})
    told = companion_here("check-config", config=elsewhere.config_file)
    assert refused(told, "another server", "use the same server")
    assert "secret-word" not in told.errors
    for url in ("sqlite:///companion.db",):
        elsewhere = daemon({"database": {"url": url}})
        assert refused(companion_here("check-config", config=elsewhere.config_file), "another server")


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_our_tables_may_stand_in_another_schema(daemon: MakeDaemon, authme: AuthMeLike, mariadb: MariaDBServer) -> None:
    with mariadb.fresh_database() as ours:
        place = daemon({"database": {"url": ours.url}})
        authme.register("Bob", "bobs-password")
        companion_here("migrate", config=place.config_file)
        assert report_of(companion_here("sync", config=place.config_file))["adopted"] == 1
        assert companion_here("users", "ban", "Bob", config=place.config_file).status == 0
        assert not authme.login("Bob", "bobs-password")
        assert tables_in(authme.table) == {"authme"}


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_another_installation_key_is_refused(place: Daemon, run: Run) -> None:
    assert run("migrate").status == 0
    place.write_config(with_section(place, "auth", installation_key=OTHER_KEY))
    for command in ("migrate", "serve"):
        told = companion(command, config=place.config_file)
        assert refused(told, "another installation key", "Restore the key of before")
        assert OTHER_KEY not in told.errors


def with_section(place: Daemon, name: str, **keys: object) -> dict[str, dict[str, Any]]:
    """Write the daemon's config with another section."""
    config: dict[str, dict[str, Any]] = tomllib.loads(place.config_file.read_text(encoding="utf-8"))
    config.setdefault(name, {}).update(keys)
    return config


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_the_state_of_another_installation_is_refused(place: Daemon, run: Run) -> None:
    assert run("migrate").status == 0
    home = place.state_dir / "home.json"
    state = json.loads(home.read_text())
    home.write_text(json.dumps({**state, "installation_id": "another"}))
    assert refused(companion("serve", config=place.config_file), "belongs to another installation")


def test_a_newer_schema_is_refused(place: Daemon, run: Run, authme_table: AuthMeTable) -> None:
    assert run("migrate").status == 0
    shared = authme_table.database
    ours = shared if shared.kind == "mariadb" else SqliteFile(place.state_dir / "companion.db")
    ours.execute("INSERT INTO regsvc_migration VALUES (9999, 'from_the_future', '2031-01-01 00:00:00.000')")
    for command in ("serve", "sync"):
        assert refused(companion(command, config=place.config_file), "9999", "Install the newer version again")


# --- a database that is unavailable ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_database_that_is_away_at_the_start_is_waited_for(
    place: Daemon, run: Run, mariadb: MariaDBServer, authme: AuthMeLike
) -> None:
    assert isinstance(authme.table.database, MariaDBSchema)
    mariadb.stop()
    try:
        told = run("migrate")
        assert told.status == 1
        assert told.errors.startswith(f"companion: the database (mysql:127.0.0.1:{mariadb.port}/")
        assert "cannot be used: Can't connect" in told.errors
        place.spawn()
        assert place.wait_for_log("the database is tried again in", START_TIMEOUT)
        away = place.get("/api/user/status", {"username": "Alice"})
        assert (away.status, away.code) == (503, "database_away")
        assert int(away.headers["Retry-After"]) > 0
        assert place.get("/api/config").status == 200
        assert place.get("/health/alive").status == 200
        unready = place.get("/health/ready")
        assert (unready.status, unready.code) == (503, "database_away")
        assert place.output == []
    finally:
        mariadb.start()
    assert place.wait_for_log("the database is back")
    assert place.wait_for_output(READY)
    messages = [json.loads(line)["message"] for line in place.log]
    assert len([message for message in messages if message.startswith("the database is away")]) == 1
    assert "the database is tried again in 2 seconds" in messages
    assert not [message for message in messages if "webhook" in message or "console" in message]
    assert place.get("/api/user/status", {"username": "Alice"}).json["data"] == {"registered": False}
    assert len([line for line in place.output if line.startswith(READY)]) == 1


def test_a_state_directory_that_cannot_be_used_is_refused(daemon: MakeDaemon, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    place = daemon({"server": {"state_dir": str(tmp_path / "file" / "state")}})
    assert refused(companion("serve", config=place.config_file), "cannot be read or created")
