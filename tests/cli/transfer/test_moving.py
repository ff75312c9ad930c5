"""`companion migrate --to`: everything is moved, or nothing has changed."""

import json
import re
import sqlite3
from contextlib import closing
from itertools import chain, count
from typing import Any

import pytest

from plugin_bridge.hashers.password_hasher import HASHERS
from regsvc.core import progress
from regsvc.database.failpoints import VARIABLE
from tests.cli.transfer.conftest import Run
from tests.support.authme.authme_database import MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.command_line import companion, companion_here
from tests.support.contents import contents_of, next_user_id
from tests.support.daemon import Daemon
from tests.support.peers.mariadb import Database, MariaDBServer

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"])  # the database of AuthMe; the moves are in the tests

KILLED = -9


def reconcile(place: Daemon, run: Run, *names: str) -> None:
    """Users with a history; Mallory is banned, and the membership has ended."""
    banned = {"status": "banned", "reason": "griefing — 破坏", "ban_expires_at": "2131-01-01T00:00:00Z"}
    banned |= {"member_until": "2031-01-01", "ended_because": "idle", "ended_at": "2030-01-01T00:00:00.123Z"}
    users = [user(name) for name in names] + [user("Mallory") | banned]
    file = place.directory / "users.json"
    file.write_text(json.dumps(users), "utf-8")
    assert run("import", str(file)).status == 0


def user(name: str) -> dict[str, object]:
    hashed = HASHERS["SHA256"].hash(f"{name}-s3cret", name)
    secrets = {"hash": hashed.hash, "algorithm": "SHA256"}
    return {"username": name, "email": f"{name}@Example.org", "status": "approved", **secrets}


TYPED = ("--password-stdin",)


def point_at(place: Daemon, url: str) -> None:
    """Change the config as the command advises."""
    text = place.config_file.read_text("utf-8")
    head = "\n".join(line for line in text.split("\n") if not line.startswith(("[database]", "url = ")))
    place.config_file.write_text(f'{head}\n[database]\nurl = "{url}"\n', "utf-8")


def login(place: Daemon, name: str) -> int:
    return place.post("/api/login", {"username": name, "password": f"{name}-s3cret"}).status


def home_of(place: Daemon) -> str:
    home: str = json.loads((place.state_dir / "home.json").read_text())["home"]
    return home


def test_everything_goes_to_mariadb_and_back(place: Daemon, run: Run, database: Database) -> None:
    reconcile(place, run, "Alice", "Bob", "Trent")
    assert run("users", "delete", "Trent").status == 0
    with (
        closing(sqlite3.connect(place.state_dir / "companion.db")) as ours,
        ours,
    ):  # the game's allowlist, as we know it
        ours.execute(
            "INSERT INTO regsvc_allowlist (username_key, username, state, reason, since, user_id)"
            " SELECT username_key, username, 'add', 'no_uuid', created_at, id FROM regsvc_user"
        )
    first_file = f"sqlite:///{place.state_dir / 'companion.db'}"
    before, number = contents_of(first_file), next_user_id(first_file)
    assert before["regsvc_allowlist"][0] == 3

    there = run("migrate", "--to", database.url)
    assert there.status == 0, there
    assert "row counts and digests match" in there.output
    assert "\ncreating our tables in mysql:" in there.errors, "before the first row"
    assert 'set database.url = "mysql://authme:PASSWORD@' in there.output
    assert (contents_of(database.url), next_user_id(database.url)) == (before, number)
    left = run("users", "list")
    assert (left.status, "This installation lives in mysql:" in left.errors) == (78, True)

    point_at(place, database.url)
    place.start()
    assert [login(place, name) for name in ("Alice", "Bob", "Mallory")] == [200, 200, 403]
    place.stop()
    assert run("users", "create", "Carol", *TYPED, typed="Carol-s3cret\n").status == 0
    before = contents_of(database.url)

    new_file = f"sqlite:///{place.state_dir / 'again.db'}"
    back = run("migrate", "--to", "-", typed=f"{new_file}\n")  # other users would not see a password
    assert back.status == 0, back
    assert (contents_of(new_file), next_user_id(new_file)) == (before, number + 1)
    point_at(place, new_file)
    place.start()
    assert [login(place, name) for name in ("Alice", "Carol", "Mallory")] == [200, 200, 403]
    place.stop()
    assert run("migrate", "--to", new_file).output.startswith("everything is in sqlite:")


def test_the_rows_on_the_way_are_those_at_the_end(place: Daemon, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reconcile(place, run, "Alice", "Bob")
    monkeypatch.setattr(progress, "_LOG_EVERY", 0.0)
    moved = run("migrate", "--to", f"sqlite:///{place.state_dir / 'again.db'}")
    [rows] = re.findall(r"^moved (\d+) rows", moved.output, re.MULTILINE)
    assert set(re.findall(r"moving: \d+ of (\d+) ", moved.errors)) == {rows}, moved.errors


def test_what_was_left_is_no_home_any_more(place: Daemon, run: Run) -> None:
    assert run("migrate").status == 0
    old, new = place.state_dir / "companion.db", place.state_dir / "new.db"
    assert run("migrate", "--to", f"sqlite:///{new}").status == 0
    (place.state_dir / "home.json").unlink()  # as with a state directory of another machine
    refused = run("migrate")
    assert refused.status == 78
    assert f"moved to: sqlite:{new}" in refused.errors
    assert old.exists()


def test_a_place_that_was_left_says_how_to_go_back(place: Daemon, run: Run) -> None:
    reconcile(place, run)
    old, new = place.state_dir / "companion.db", place.state_dir / "new.db"
    moved = run("migrate", "--to", f"sqlite:///{new}")
    assert f"the old file {old} is still there: remove it once everything works" in moved.output
    refused = run("migrate", "--to", "auto")
    assert refused.status == 1
    assert f"it was in use until its contents were moved to: sqlite:{new}" in refused.errors
    assert f"move the file {old} away" in refused.errors
    old.rename(place.state_dir / "old.db")
    assert run("migrate", "--to", "auto").status == 0


def test_an_authme_that_moved_to_mysql_takes_us_along(
    place: Daemon, run: Run, game_server: GameServer, authme_table: AuthMeTable, database: Database
) -> None:
    reconcile(place, run, "Alice")
    there = AuthMeTable(MariaDBSchema(database))
    create_table(there)
    for row in authme_table.database.query(f"SELECT * FROM {authme_table.name}"):
        insert_player(there, **{name: value for name, value in row.items() if name != "id"})
    game_server.install_authme(there)

    refused = companion("serve", config=place.config_file)
    assert (refused.status, "companion migrate --to" in refused.errors) == (78, True)
    moved = run("migrate", "--to", "auto")
    assert moved.status == 0, moved
    assert "the config can stay as it is" in moved.output
    place.start()
    assert [login(place, name) for name in ("Alice", "Mallory")] == [200, 403]
    assert AuthMeLike(there).login("Alice", "Alice-s3cret")


# --- what is refused ---


def test_nothing_moves_while_a_daemon_runs(place: Daemon, run: Run) -> None:
    place.start()
    refused = run("migrate", "--to", f"sqlite:///{place.state_dir / 'new.db'}")
    assert (refused.status, "stop it first" in refused.errors) == (1, True)
    assert home_of(place) == "sqlite:companion.db"


def test_a_database_with_rows_in_it_is_left_alone(place: Daemon, run: Run, daemon: Any) -> None:
    reconcile(place, run)
    other = daemon({}, directory=place.directory.parent / "other")
    assert companion_here("migrate", config=other.config_file).status == 0
    theirs = f"sqlite:///{other.state_dir / 'companion.db'}"
    before = contents_of(theirs)
    refused = run("migrate", "--to", theirs)
    assert (refused.status, "is not empty" in refused.errors) == (1, True)
    assert contents_of(theirs) == before
    assert run("users", "list").status == 0


def test_a_newer_schema_is_left_alone(place: Daemon, run: Run) -> None:
    assert run("migrate").status == 0
    newer = SqliteFile(place.state_dir / "newer.db")
    newer.execute("CREATE TABLE regsvc_migration (number INTEGER PRIMARY KEY, name TEXT, applied_at TEXT)")
    newer.execute("INSERT INTO regsvc_migration VALUES (9999, 'from_the_future', '2031-01-01 00:00:00.000')")
    refused = run("migrate", "--to", f"sqlite:///{newer.path}")
    assert (refused.status, "9999" in refused.errors) == (78, True)


@pytest.mark.parametrize(
    ("url", "status", "word"),
    [
        ("sqlite:///companion.db", 1, "absolute path"),
        ("mongo://somewhere/else", 1, "a database URL is"),
        ("mysql://nobody:nothing@127.0.0.1:1/none", 1, "cannot be used"),
        ("sqlite:////nowhere/at/all.db", 1, "cannot be used"),
        ("auto", 0, "everything is in sqlite:companion.db already"),
    ],
)
def test_a_target_that_is_none_is_explained(place: Daemon, run: Run, url: str, status: int, word: str) -> None:
    assert run("migrate").status == 0
    told = run("migrate", "--to", url)
    assert told.status == status, told
    assert word in told.output + told.errors
    assert "Traceback" not in told.errors
    assert home_of(place) == "sqlite:companion.db"


def test_a_password_that_is_not_encoded_is_not_told(place: Daemon, run: Run, database: Database) -> None:
    assert run("migrate").status == 0
    assert run("migrate", "--to", database.url).status == 0  # only --from leads back from there
    new = f"sqlite:///{place.state_dir / 'new.db'}"
    for place_of_it in ("s3cr3t/Pa#x@127.0.0.1:1/x", "12/s3cr3t@127.0.0.1/x", "s3cr3t@127.0.0.1:port/x"):
        url = f"mysql://me:{place_of_it}"
        for arguments, option in ((("--to", url), "--to"), (("--to", new, "--from", url), "--from")):
            told = run("migrate", *arguments)
            assert told.status == 1, told
            assert told.errors.startswith(f"companion: {option}: a database URL is "), told
            assert "percent-encode" in told.errors
            assert "s3cr3t" not in told.errors + told.output


def test_authmes_own_file_stays_authmes(place: Daemon, run: Run, authme_table: AuthMeTable) -> None:
    assert run("migrate").status == 0
    assert isinstance(authme_table.database, SqliteFile)
    told = run("migrate", "--to", f"sqlite:///{authme_table.database.path}")
    assert (told.status, "AuthMe's own file" in told.errors) == (78, True)
    assert authme_table.database.query("PRAGMA journal_mode") == [{"journal_mode": "delete"}]


def test_there_is_nothing_to_move_before_the_first_start(run: Run, place: Daemon) -> None:
    told = run("migrate", "--to", f"sqlite:///{place.state_dir / 'new.db'}")
    assert (told.status, "nothing to move" in told.errors) == (1, True)


def test_a_daemon_elsewhere_that_shares_the_database_is_noticed(place: Daemon, run: Run, database: Database) -> None:
    point_at(place, database.url)
    assert run("migrate").status == 0
    schema = MariaDBSchema(database)
    schema.execute("INSERT INTO regsvc_lease VALUES ('sync', 'another-place:7', UTC_TIMESTAMP(3))")
    target = f"sqlite:///{place.state_dir / 'new.db'}"
    refused = run("migrate", "--to", target)
    assert (refused.status, "Another daemon" in refused.errors) == (1, True)
    schema.execute("UPDATE regsvc_lease SET expires_at = UTC_TIMESTAMP(3) - INTERVAL 1 DAY")
    schema.execute("INSERT INTO regsvc_lease VALUES ('allowlist completed', '', UTC_TIMESTAMP(3))")  # nobody's
    assert run("migrate", "--to", target).status == 0


# --- killed in the middle ---


@pytest.mark.parametrize("target", ["mariadb", "sqlite"])
def test_killed_anywhere_it_ends_in_one_place(place: Daemon, run: Run, mariadb: MariaDBServer, target: str) -> None:
    reconcile(place, run, "Alice")
    old = f"sqlite:///{place.state_dir / 'companion.db'}"
    before = contents_of(old)
    order = place.directory / "kill-at"
    with mariadb.fresh_database() as schema:
        new = schema.url if target == "mariadb" else f"sqlite:///{place.state_dir / 'new.db'}"
        kills = 0
        # on MariaDB creating tables takes a while; the last steps are the same
        numbers = count(2, 5) if target == "mariadb" else chain((2, 7), count(10))
        for number in numbers:
            order.write_text(f"after commit:{number}")
            done = run("migrate", "--to", new, **{VARIABLE: str(order)})
            if done.status != KILLED:
                break
            kills += 1
            if home_of(place) == "sqlite:companion.db":
                assert contents_of(old) == before
                order.unlink()
                assert run("users", "list").status == 0
        order.unlink()
        assert kills >= 2
        assert run("migrate", "--to", new).status == 0
        assert contents_of(new) == before
        point_at(place, new)
        place.start()
        assert login(place, "Alice") == 200
        place.stop()
