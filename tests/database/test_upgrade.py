"""A database of 1.0.0, or of the last preview version before it, becomes one of this version, wherever that is killed.

`preview/` has two databases of commit 5980771 as SQL: users of every status, locks, intents; elsewhere a few rows. The
November ones are the same after an upgrade by commit 40b686ad, whose migrations had the numbers of later ones. Those of
1.0.0 were made by its own code: the people of its demo and what commands did to them, with their registrations moved
over a year; and, by SQL, rows in each table that was empty, and addresses with tags, dots and quotes.
"""

import logging
import re
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from peewee import Database, OperationalError, SqliteDatabase

from regsvc.cli import data
from regsvc.config.places import LOCATION_FILE
from regsvc.core.email_address import mailbox_of
from regsvc.core.text import look_key
from regsvc.database import migrator
from regsvc.database.engine import find_refused_write, open_database
from regsvc.database.migrations import upgrade_from_preview
from regsvc.database.migrator import NumberedMigration, UnusableSchema, list_copies, list_migrations, migrate
from regsvc.database.models import (
    MODELS,
    UNVERIFIED,
    VERIFIED,
    Allowed,
    AskedQuestion,
    Installation,
    Invitation,
    KnownOperator,
    Lease,
    Migration,
    Note,
    PlayerAddress,
    Reader,
    Setting,
    SyncState,
    TeamChatEvent,
    TeamChatLink,
    TeamChatMessage,
    Token,
    User,
    bind_models,
)
from regsvc.database.schema import INDEX, Part, Schema, read_schema
from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import Finished, companion_here
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile
from tests.support.peers.mariadb import Database as MariaDBSchema
from tests.support.peers.mariadb import MariaDBServer

PREVIEW = Path(__file__).parent / "preview"
NEWEST = [f"{migration.number:04} {migration.name}" for migration in list_migrations()]
PAGE = 4
"""Sync records per statement here, of ten."""
NEW_NAMES = {
    "wish": "intent",
    "wish_hash": "intent_hash",
    "wish_salt": "intent_salt",
    "wish_regdate": "intent_regdate",
}
NEW_TABLES = {"regsvc_player": "regsvc_sync_record", "regsvc_digest": "regsvc_bucket"}
NEW_COLUMNS: dict[str, dict[str, Any]] = {
    "regsvc_session": {"has_second_factor": 0, "device": None},
    "regsvc_user": {
        "role": None,
        "applied_role": None,
        "asked_at": None,
        "answered_at": None,
        "is_asked": 0,
        "invited_by": None,
        **dict.fromkeys(
            ("member_until", "applied_until", "lapses_at", "lapse", "ended_because", "applied_ended", "ended_at")
        ),
        **dict.fromkeys(("renewed_at", "reminded_at", "stay_asked_at", "member_for")),
    },
    "regsvc_invitation": {"member_for": None, "has_second_factor": 0, "token_id": None},
    "regsvc_token": {"has_second_factor": 0},
    "regsvc_team_chat_link": {"has_second_factor": 0},
    "regsvc_chat_link": {"roles_seen_at": None, "roles_missed_at": None},
    "regsvc_link": {"issued_by": None, "maker": None, "token_id": None, "has_second_factor": 0, "undoes": 0},
    "regsvc_review": {"answers": None},
    "regsvc_installation": {"players_table": None},
    "regsvc_questionnaire_result": {"answer_seconds": None},
}
TEAM_CHAT = (TeamChatMessage, TeamChatLink, TeamChatEvent)
NEW_MODELS = (
    *(AskedQuestion, Invitation, PlayerAddress, Reader, Allowed, Token, Setting, Note, KnownOperator, *TEAM_CHAT),
)
NOT_COMPARED = ("regsvc_migration", "regsvc_lease", "regsvc_sync_state")
NEW_ORIGINS = {"agreed": VERIFIED, "stranger": UNVERIFIED, None: None}
SIXTEENTH = (
    "ALTER TABLE regsvc_player ADD COLUMN kept_group INT NULL",
    "ALTER TABLE regsvc_player ADD COLUMN kicked_login BIGINT NULL",
    "UPDATE regsvc_player SET kept_group = 3, kicked_login = 1900000000000 WHERE username_key = 'bob'",
    "INSERT INTO regsvc_migration VALUES (16, 'passwordless_logins', '2031-05-05 12:00:00.000')",
)
DRIVER = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from peewee import Database
from regsvc.database.engine import open_database
from regsvc.database.migrator import migrate
from regsvc.database.models import bind_models

execute, last = Database.execute_sql, sys.argv[2]
left = int(last) if last.isdigit() else None

def execute_some(self, *given, **named):
    global left
    left = None if left is None else left - 1
    if left == -1 or left is None and last in given[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(self, *given, **named)

Database.execute_sql = execute_some
ours = open_database(sys.argv[1], timedelta(seconds=5))
bind_models(ours)
with ours.connection_context():
    migrate(ours, lambda: datetime.now(UTC))
"""
"""Migrates the database at a URL, and kills itself before one of the statements: of a number, or with a text."""

UNCHANGING = ("SELECT", "SHOW", "PRAGMA", "BEGIN", "SAVEPOINT", "RELEASE")

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def preview(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> Iterator[Database]:
    with loaded(request, database_kind, tmp_path, "") as database:
        yield database


@pytest.fixture
def november(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> Iterator[Database]:
    with loaded(request, database_kind, tmp_path, "november-") as database:
        yield database


@pytest.fixture
def released(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> Iterator[Database]:
    with loaded(request, database_kind, tmp_path, "1.0.0-") as database:
        yield database


@contextmanager
def loaded(request: pytest.FixtureRequest, kind: DatabaseKind, folder: Path, version: str) -> Iterator[Database]:
    text = (PREVIEW / f"{version}{kind}.sql").read_text("utf-8")
    with ExitStack() as stack:
        if kind == "mariadb":
            schema: MariaDBSchema = request.getfixturevalue("database")
            with closing(schema.connect()) as connection, connection.cursor() as cursor:
                for statement in text.split(";\n\n"):
                    cursor.execute(statement)
                connection.commit()
            yield opened(schema.url, stack)
        else:
            with closing(sqlite3.connect(folder / "companion.db")) as empty:
                empty.executescript(text)
            yield opened(f"sqlite:///{folder / 'companion.db'}", stack)


@pytest.fixture
def fresh_schema(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> Iterator[Schema]:
    """What a database of this version consists of."""
    upgraded: Database = User._meta.database
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'fresh.db'}"
        if database_kind == "mariadb":
            server: MariaDBServer = request.getfixturevalue("mariadb")
            url = stack.enter_context(server.fresh_database()).url
        fresh = opened(url, stack)
        migrate(fresh, ManualClock())
        bind_models(upgraded)
        yield read_schema(fresh)


def opened(url: str, stack: ExitStack) -> Database:
    database = open_database(url, timedelta(seconds=5))
    bind_models(database)
    database.connect()
    stack.callback(database.close)
    return database


def fetch(database: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(database.execute_sql(sql).fetchall())


def rows_of(database: Database) -> Rows:
    """Return the rows of all tables that have any, but the migrations' own, under the names of this version."""
    found = {}
    for table in database.get_tables():
        if not table.startswith("regsvc_") or table in NOT_COMPARED:
            continue
        cursor = database.execute_sql(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        added = NEW_COLUMNS.get(table, {})
        rows = [new_row(with_new(dict(zip(names, row, strict=True)), added)) for row in cursor.fetchall()]
        if rows:
            found[NEW_TABLES.get(table, table)] = sorted(rows, key=lambda row: str(next(iter(row.values()))))
    return found


def with_new(row: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    if "is_email_verified" in row:
        due_at = row["ban_expires_at"] if row["status"] == "banned" else None
        added = added | {"due_at": due_at, "access": row["applied_status"]}
        added = added | {"look_key": look_key(str(row["username_key"]))}
    if "email_key" in row and ("is_email_verified" in row or "reviewed_at" in row):
        key = row["email_key"]
        added = added | {"mailbox": None if key is None else mailbox_of(str(key))}
    return row | {name: value for name, value in added.items() if name not in row}


def new_row(row: dict[str, Any]) -> dict[str, Any]:
    new = {NEW_NAMES.get(name, name): value for name, value in row.items()}
    if "kept_origin" in new:
        origin = new["kept_origin"]
        new |= {"kept_origin": NEW_ORIGINS.get(origin, origin)}
        new = {"kept_group": None, "kicked_login": None, **new}
        return dict(sorted(new.items(), key=lambda item: (item[0] != "username_key", item[0])))
    return new


class Killed(BaseException):
    """Stands for the end of the process."""


def kill_after_each_new_statement(
    database: Database, monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]
) -> int:
    """Run again and again, each time until one statement more has changed something; return how often."""
    done = set[str]()
    execute: Any = Database.execute_sql

    def run_until_killed() -> None:
        is_killed = False

        def execute_some(self: Database, sql: str, params: Any = None) -> Any:
            nonlocal is_killed
            if is_killed:
                raise Killed  # a dead process cleans nothing up
            cursor = execute(self, sql, params)
            statement = f"{sql} {params}" if "regsvc_sync_record (" in sql else sql
            if not sql.startswith(UNCHANGING) and statement not in done:
                done.add(statement)
                is_killed = True
                raise Killed
            return cursor

        with monkeypatch.context() as patched:
            patched.setattr(Database, "execute_sql", execute_some)
            run()

    while True:
        try:
            run_until_killed()
            return len(done)
        except Killed:
            pass
        database.close()  # a cursor in the traceback would keep the file locked
        database.connect()


def list_of_1_0() -> list[NumberedMigration]:
    return [migration for migration in list_migrations() if migration.number <= 108]


def check_upgrade(database: Database, request: pytest.FixtureRequest, folder: Path) -> Finished:
    """Run `companion upgrade-check` with an installation that uses the database."""
    url = f"sqlite:///{database.database}"
    if not isinstance(database, SqliteDatabase):
        url = request.getfixturevalue("database").url
    (folder / LOCATION_FILE).touch()
    config = folder / "companion.toml"
    config.write_text(f'server.state_dir = "{folder}"\ndatabase.url = "{url}"\nauthme.enabled = false\n', "utf-8")
    return companion_here("upgrade-check", config=config)


# --- the upgrade of 1.0.0 ---


def test_1_0_becomes_this_version_wherever_it_is_killed_and_there_is_no_way_back(
    released: Database,
    fresh_schema: Schema,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    before = rows_of(released)
    assert {model._meta.table_name for model in MODELS} - before.keys() - {*NOT_COMPARED} == {"regsvc_operator"}
    known = list_of_1_0()
    added = list_migrations()[len(known) :]

    told = check_upgrade(released, request, tmp_path)
    assert (told.status, told.errors) == (3, "")
    assert "at migration 108, applied" in told.output
    named = re.findall(r"^  (\d+): \S+", told.output, re.MULTILINE)
    assert named == [str(migration.number) for migration in added]
    assert "differ" not in told.output

    kills = kill_after_each_new_statement(released, monkeypatch, lambda: migrate(released, clock))
    assert kills > 3 * len(added)
    assert read_schema(released) == fresh_schema
    assert rows_of(released) == before
    assert migrate(released, clock) == []
    assert {str(user.email): user.mailbox for user in User if user.email and "+" in user.email} == {
        "Lena.Holz+game@example.org": "lenaholz@example.org",
        '"lena..holz+x"@example.org': '"lena..holz+x"@example.org',
    }
    for model in set(MODELS) - {SyncState, KnownOperator, Lease}:
        assert list(model.select()), f"the models read {model._meta.table_name}"
    if isinstance(released, SqliteDatabase):
        [copy] = list_copies(Path(released.database))
        assert copy.name == "companion.db.before-0109"

    told = check_upgrade(released, request, tmp_path)
    assert (told.status, told.errors) == (0, "")
    assert "Nothing will be migrated" in told.output
    assert "differ" not in told.output

    monkeypatch.setattr(migrator, "list_migrations", lambda: known)
    monkeypatch.setattr(data, "list_migrations", lambda: known)
    with pytest.raises(UnusableSchema, match="has migration 115, but this version knows only 108"):
        migrate(released, clock)
    told = check_upgrade(released, request, tmp_path)
    assert told.status == 4
    assert "will not start on it" in told.output
    assert rows_of(released) == before


# --- the upgrade of a preview ---


def test_everything_is_there_after_the_upgrade(
    preview: Database, fresh_schema: Schema, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade_from_preview, "_ROWS_PER_STATEMENT", PAGE)
    before = rows_of(preview)
    assert migrate(preview, clock) == NEWEST
    assert read_schema(preview) == fresh_schema
    assert rows_of(preview) == before
    assert fetch(preview, "SELECT name FROM regsvc_migration ORDER BY number") == [(name[5:],) for name in NEWEST]
    assert migrate(preview, clock) == []
    for model in set(MODELS) - {*NEW_MODELS, SyncState}:  # which no preview had, or which starts anew
        assert list(model.select()), f"the models read {model._meta.table_name}"


def test_intents_and_locks_have_their_new_words(preview: Database, clock: ManualClock) -> None:
    migrate(preview, clock)
    records = {row["username_key"]: row for row in rows_of(preview)["regsvc_sync_record"]}
    assert {name: records[name]["intent"] for name in ("carol", "ivan", "dave", "bob")} == {
        "carol": "provision",
        "ivan": "password",
        "dave": "open",
        "bob": None,
    }
    assert records["carol"]["intent_hash"] == "$SHA$of$carol"
    assert [records[name]["kept_origin"] for name in ("bob", "dave", "alice")] == ["verified", "unverified", None]
    drift = dict(fetch(preview, "SELECT username, intent FROM regsvc_v_sync_drift"))
    assert (drift["Dave"], drift["Bob"]) == ("open", None)


def test_a_preview_version_after_the_last_one_is_upgraded_too(
    preview: Database, fresh_schema: Schema, clock: ManualClock
) -> None:
    for statement in SIXTEENTH:
        preview.execute_sql(statement)
    before = rows_of(preview)
    assert migrate(preview, clock) == NEWEST
    assert read_schema(preview) == fresh_schema
    assert rows_of(preview) == before
    [bob] = [row for row in before["regsvc_sync_record"] if row["username_key"] == "bob"]
    assert (bob["kept_group"], bob["kicked_login"]) == (3, 1_900_000_000_000)


def test_a_row_is_marked_as_changed_as_before(preview: Database, clock: ManualClock) -> None:
    migrate(preview, clock)
    for table in ("regsvc_user", "regsvc_sync_record"):
        preview.execute_sql(f"UPDATE {table} SET changed_at = NULL WHERE changed_at IS NOT NULL")
    preview.execute_sql("DELETE FROM regsvc_session")
    preview.execute_sql("UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'erin'")
    preview.execute_sql("UPDATE regsvc_sync_record SET conflict = 'email' WHERE username_key = 'ivan'")
    marked = "SELECT username_key FROM {} WHERE changed_at IS NOT NULL"
    assert fetch(preview, marked.format("regsvc_user")) == [("erin",)]
    assert fetch(preview, marked.format("regsvc_sync_record")) == [("ivan",)]


def require_one_copy(preview: Database) -> None:
    """Assert that the file as it was before the upgrade is there, and nothing that was copied during it."""
    if isinstance(preview, SqliteDatabase):
        [copy] = Path(preview.database).parent.glob("companion.db.before-*")
        assert copy.name == "companion.db.before-0100"
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("SELECT COUNT(*) FROM regsvc_player WHERE wish IS NOT NULL").fetchone() == (3,)
            assert connection.execute("SELECT MAX(number) FROM regsvc_migration").fetchone() == (15,)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_each_upgrade_copies_the_file_before(preview: Database, clock: ManualClock) -> None:
    migrate(preview, clock)
    require_one_copy(preview)
    newest = list_migrations()[-1].number
    preview.execute_sql(f"DELETE FROM regsvc_migration WHERE number = {newest}")  # as if it were tomorrow's
    migrate(preview, clock)
    assert isinstance(preview, SqliteDatabase)
    copies = [copy.name for copy in list_copies(Path(preview.database))]
    assert copies == [f"companion.db.before-{newest:04}", "companion.db.before-0100"]


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_disk_without_room_for_the_copy_keeps_what_there_is(preview: Database, clock: ManualClock) -> None:
    assert isinstance(preview, SqliteDatabase)
    file = Path(preview.database)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, limits[1]))
    try:
        with pytest.raises(OperationalError) as refused:
            migrate(preview, clock)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert find_refused_write(refused.value), "a daemon waits for room"
    assert list(file.parent.glob("*.before-*")) == []
    assert migrate(preview, clock) == NEWEST
    require_one_copy(preview)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_view_of_the_hosts_own_does_not_stop_the_upgrade(preview: Database, clock: ManualClock) -> None:
    """SQLite renames no table while any view reads one that is gone; the host is told to change theirs."""
    preview.execute_sql("CREATE VIEW intents AS SELECT username_key FROM regsvc_player WHERE wish IS NOT NULL")
    assert migrate(preview, clock) == NEWEST
    preview.execute_sql("DROP VIEW intents")
    assert fetch(preview, "SELECT COUNT(*) FROM regsvc_bucket") != []


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_login_that_may_make_no_triggers_and_no_views_is_upgraded(
    preview: Database, mariadb: MariaDBServer, database: MariaDBSchema, clock: ManualClock
) -> None:
    before = rows_of(preview)
    mariadb.run_as_root(f"REVOKE TRIGGER, CREATE VIEW ON `{database.name}`.* FROM '{database.user}'@'%'")
    preview.close()  # rights count from the next connection
    preview.connect()
    assert migrate(preview, clock) == NEWEST
    assert rows_of(preview) == before
    assert preview.get_views() == []


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_login_that_may_not_drop_is_told_and_goes_on_once_it_may(
    preview: Database, mariadb: MariaDBServer, database: MariaDBSchema, clock: ManualClock
) -> None:
    before = rows_of(preview)
    mariadb.run_as_root(f"REVOKE DROP ON `{database.name}`.* FROM '{database.user}'@'%'")
    preview.close()
    preview.connect()
    with pytest.raises(OperationalError, match="DROP command denied"):
        migrate(preview, clock)
    mariadb.run_as_root(f"GRANT DROP ON `{database.name}`.* TO '{database.user}'@'%'")
    preview.close()
    preview.connect()
    assert migrate(preview, clock) == NEWEST
    assert rows_of(preview) == before


# --- a preview of November ---


def test_the_tables_of_november_become_equal(
    november: Database, fresh_schema: Schema, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Commit 40b686ad: migrations up to 108, with other indexes than those of 1.0."""
    before = rows_of(november)
    november.execute_sql("CREATE INDEX hosts_own ON regsvc_user (last_login_at)")
    with caplog.at_level(logging.INFO):
        assert migrate(november, clock)[-1] == NEWEST[-1]
    assert rows_of(november) == before
    assert read_schema(november).items() - fresh_schema.items() == {
        (Part(INDEX, "regsvc_user", "hosts_own"), "(last_login_at)")
    }
    assert fresh_schema.items() <= read_schema(november).items()
    assert [column.name for column in november.get_columns("regsvc_sync_state")][2:] == ["operators", "compared_at"]
    repaired = [line for line in caplog.messages if line.startswith("repairing the tables: ")]
    assert len(repaired) >= 10, repaired
    Migration.delete().where(Migration.number == list_migrations()[-1].number).execute()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert migrate(november, clock) == NEWEST[-1:]
    assert "repairing" not in caplog.text, "what is as it should be is left alone"


def test_killed_after_every_repair_it_goes_on(
    november: Database, fresh_schema: Schema, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(november)
    with monkeypatch.context() as patched:  # the others are killed elsewhere
        known = [*list_of_1_0(), *(migration for migration in list_migrations() if migration.number == 113)]
        patched.setattr(migrator, "list_migrations", lambda: known)
        kills = kill_after_each_new_statement(november, monkeypatch, lambda: migrate(november, clock))
    assert kills > 15
    migrate(november, clock)
    assert read_schema(november) == fresh_schema
    assert rows_of(november) == before


# --- killed, and several at once ---


def test_killed_after_every_statement_it_goes_on(
    preview: Database, fresh_schema: Schema, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade_from_preview, "_ROWS_PER_STATEMENT", PAGE)
    before = rows_of(preview)
    known = list_of_1_0()
    with monkeypatch.context() as patched:  # the others are killed above
        patched.setattr(migrator, "list_migrations", lambda: known)
        kills = kill_after_each_new_statement(preview, monkeypatch, lambda: migrate(preview, clock))
    assert kills > 20
    require_one_copy(preview)
    migrate(preview, clock)
    assert read_schema(preview) == fresh_schema
    assert rows_of(preview) == before
    assert migrate(preview, clock) == []


def test_a_process_that_is_killed_leaves_the_rest_to_the_next(
    preview: Database, fresh_schema: Schema, request: pytest.FixtureRequest, clock: ManualClock
) -> None:
    """With SIGKILL, as the kernel and impatient hosts do."""
    before = rows_of(preview)
    is_file = isinstance(preview, SqliteDatabase)
    url = f"sqlite:///{preview.database}" if is_file else request.getfixturevalue("database").url
    preview.close()
    for last in ("13", "has_second_factor"):  # in the first migration, and between two
        done = subprocess.run([sys.executable, "-c", DRIVER, url, last], check=False, capture_output=True)
        assert done.returncode == -9, done
    preview.connect()
    if is_file:
        assert fetch(preview, "SELECT MAX(number) FROM regsvc_migration") == [(100,)]
    migrate(preview, clock)
    assert read_schema(preview) == fresh_schema
    assert rows_of(preview) == before
    require_one_copy(preview)


def test_whoever_comes_second_finds_everything_done(
    preview: Database, fresh_schema: Schema, clock: ManualClock
) -> None:
    """On SQLite it waited for the file; on a server the lease keeps it from beginning."""
    before = rows_of(preview)
    with meanwhile(migrator, "_apply", lambda: migrate(preview, clock)):
        migrate(preview, clock)
    assert read_schema(preview) == fresh_schema
    assert rows_of(preview) == before
    assert fetch(preview, "SELECT COUNT(*) FROM regsvc_migration") == [(len(NEWEST),)]


# --- what is not upgraded ---


def test_an_older_preview_is_refused_before_anything_is_touched(preview: Database, clock: ManualClock) -> None:
    preview.execute_sql("DELETE FROM regsvc_migration WHERE number > 9")
    made, before = read_schema(preview), rows_of(preview)
    with pytest.raises(UnusableSchema, match=r"before commit 5980771 \(its newest migration: 9\)\. Start"):
        migrate(preview, clock)
    preview.execute_sql("DELETE FROM regsvc_migration")  # the first start of a preview was killed
    with pytest.raises(UnusableSchema, match="its newest migration: none"):
        migrate(preview, clock)
    assert read_schema(preview) == made
    assert rows_of(preview) == before


def test_the_installation_is_still_the_same(preview: Database, clock: ManualClock) -> None:
    [identity] = fetch(preview, "SELECT installation_id FROM regsvc_installation")
    migrate(preview, clock)
    assert Installation.get().installation_id == identity[0]
    assert User.get(User.username_key == "mallory").reason == "naïve “quotes”; it's 50 % \\ backslash"
