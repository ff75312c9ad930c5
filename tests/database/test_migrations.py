"""The migrations create what the models declare, on both databases, however often and wherever they were stopped."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from peewee import SQL, Database, ForeignKeyField, IntegrityError, OperationalError, SqliteDatabase

from regsvc.database import migrator
from regsvc.database.engine import open_database
from regsvc.database.lease import TaskLease
from regsvc.database.migrations.upgrade_from_preview import BASELINE
from regsvc.database.migrator import MigrationRunning, NumberedMigration, UnusableSchema, list_migrations, migrate
from regsvc.database.models import GENERATED, MODELS, AuditEntry, Lease, Migration, User, bind_models
from regsvc.database.schema import read_schema
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable, dump_table, insert_player
from tests.support.each import assert_each
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile
from tests.support.peers.mariadb import Database as MariaDBSchema
from tests.support.peers.mariadb import MariaDBServer


@pytest.fixture
def empty_database(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> Iterator[Database]:
    url = (
        request.getfixturevalue("database").url
        if database_kind == "mariadb"
        else f"sqlite:///{tmp_path / 'companion.db'}"
    )
    opened = open_database(url, timedelta(seconds=5))
    bind_models(opened)
    with opened.connection_context():
        yield opened


@pytest.fixture
def our_database(empty_database: Database, clock: ManualClock) -> Database:
    """Migrated here, not the copy that other tests get."""
    migrate(empty_database, clock)
    return empty_database


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Migrated once, for tests that only read."""
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path_factory.mktemp('tables') / 'companion.db'}"
        if request.param == "mariadb":
            url = stack.enter_context(request.getfixturevalue("mariadb").fresh_database()).url
        opened = open_database(url, timedelta(seconds=5))
        bind_models(opened)
        stack.enter_context(opened.connection_context())
        migrate(opened, ManualClock())
        yield opened


# --- the models ---


def test_the_tables_are_those_of_the_models(tables: Database) -> None:
    made = {table for table in tables.get_tables() if table.startswith("regsvc_")}
    assert made == {model._meta.table_name for model in MODELS}


def test_the_columns_are_those_of_the_model(tables: Database) -> None:
    def check(model: Any) -> None:
        columns = {column.name: column for column in tables.get_columns(model._meta.table_name)}
        fields = {field.column_name: field for field in model._meta.sorted_fields}
        hidden = GENERATED if isinstance(tables, SqliteDatabase) else set()  # SQLite hides generated columns
        assert set(columns) == set(fields) - hidden
        for name in columns:
            field, column = fields[name], columns[name]
            may_be_null = field.null or name in GENERATED
            assert column.primary_key is field.primary_key, name
            assert column.null is may_be_null or column.primary_key, name

    assert_each(MODELS, check)


def test_what_a_model_calls_unique_or_indexed_is(tables: Database) -> None:
    def check(model: Any) -> None:
        there = [(tuple(index.columns), index.unique) for index in tables.get_indexes(model._meta.table_name)]
        for field in model._meta.sorted_fields:
            if field.unique or field.index or isinstance(field, ForeignKeyField):
                led = [unique for columns, unique in there if columns[0] == field.column_name]
                assert led, field.name
                assert not field.unique or ((field.column_name,), True) in there, field.name

    assert_each(MODELS, check)


def test_what_hangs_on_a_user_goes_with_the_user(tables: Database) -> None:
    def check(model: Any) -> None:
        there = {(key.column, key.dest_table) for key in tables.get_foreign_keys(model._meta.table_name)}
        wanted = {
            (field.column_name, field.rel_model._meta.table_name)
            for field in model._meta.sorted_fields
            if isinstance(field, ForeignKeyField)
        }
        assert there == wanted

    assert_each(MODELS, check)


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_people_who_read_sql_find_a_note_at_every_column(our_database: Database) -> None:
    cursor = our_database.execute_sql(
        "SELECT table_name, column_name, column_type, column_comment, collation_name FROM information_schema.columns"
        " WHERE table_schema = DATABASE() AND table_name LIKE 'regsvc%%'"
        " AND table_name NOT LIKE 'regsvc\\_v\\_%%'"
    )
    columns = cursor.fetchall()
    assert len(columns) > 100
    for table, name, kind, comment, collation in columns:
        assert comment, f"{table}.{name}"
        assert collation in (None, "utf8mb4_bin"), f"{table}.{name}"
        assert not name.endswith("_at") or kind == "datetime(3)", f"{table}.{name}"


def test_a_word_that_is_no_status_is_refused_by_the_database(our_database: Database) -> None:
    user = {"username": "Alice", "username_key": "alice", "origin": "registered", "created_at": ManualClock()()}
    for status in ("approve", "APPROVED", "", "deleted"):
        with pytest.raises((IntegrityError, OperationalError)):  # SQLite and MariaDB name a broken CHECK so
            User.insert(user | {"status": status, "applied_status": "pending"}).execute()


def test_the_audit_log_is_append_only_for_people_who_type_sql(our_database: Database, clock: ManualClock) -> None:
    AuditEntry.create(action="user.banned", operator="Olivia", target="Alice", created_at=clock())
    for statement in ("DELETE FROM regsvc_audit", "UPDATE regsvc_audit SET operator = 'nobody'"):
        with pytest.raises((IntegrityError, OperationalError), match="append-only"):
            our_database.execute_sql(statement)
    assert AuditEntry.select().count() == 1


# --- once, twice, and interrupted ---


def test_a_second_time_changes_nothing(empty_database: Database, clock: ManualClock) -> None:
    names = [f"{migration.number:04} {migration.name}" for migration in list_migrations()]
    assert migrate(empty_database, clock) == names
    made, first = read_schema(empty_database), list(Migration.select().dicts())
    clock.advance(days=1)
    assert migrate(empty_database, clock) == []
    assert read_schema(empty_database) == made
    assert list(Migration.select().dicts()) == first


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_one_process_at_a_time_migrates(our_database: Database, clock: ManualClock) -> None:
    """A lock of the server would not do: each node of a cluster has its own."""
    [task, elsewhere] = [TaskLease(our_database, "migration", timedelta(minutes=5), "elsewhere", pid) for pid in (1, 2)]
    assert task.acquire()
    assert migrate(our_database, clock, max_wait=timedelta()) == [], "there is nothing to wait for"
    Migration.delete().execute()
    with pytest.raises(MigrationRunning):
        migrate(our_database, clock, max_wait=timedelta())
    assert Migration.select().count() == 0
    Lease.update(expires_at=SQL("UTC_TIMESTAMP(3)")).execute()  # the process was killed
    assert len(migrate(our_database, clock)) == len(list_migrations())
    assert elsewhere.acquire(), "nothing is left of the lease"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_who_took_too_long_leaves_the_rest_to_who_has_begun_since(
    empty_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_migration(monkeypatch)
    elsewhere = TaskLease(empty_database, "migration", timedelta(minutes=1), "elsewhere", 1)

    def begin_elsewhere() -> None:
        Lease.update(expires_at=SQL("UTC_TIMESTAMP(3)")).execute()
        assert elsewhere.acquire()

    with meanwhile(migrator, "_apply", begin_elsewhere, after=True), pytest.raises(MigrationRunning):
        migrate(empty_database, clock)
    assert [row.number for row in Migration.select()] == [BASELINE]
    assert Lease.get_by_id("migration").holder == "elsewhere:1"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_who_waited_for_another_process_migrates_nothing_again(our_database: Database, clock: ManualClock) -> None:
    Migration.delete().execute()
    with meanwhile(migrator, "_wait_for", lambda: migrate(our_database, clock)):
        assert migrate(our_database, clock) == []


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_migration_that_was_interrupted_goes_on(empty_database: Database, clock: ManualClock) -> None:
    """There each CREATE commits by itself, so that a kill leaves the first tables without the last."""
    migrate(empty_database, clock)
    made = read_schema(empty_database)
    tables = [str(statement).split()[2] for statement in first_statements() if statement.startswith("CREATE TABLE")]
    for kept in range(0, len(tables), 3):
        empty_database.execute_sql("SET foreign_key_checks = 0")  # later migrations refer to them
        for table in reversed(tables[kept:]):
            empty_database.execute_sql(f"DROP TABLE {table}")
        empty_database.execute_sql("SET foreign_key_checks = 1")
        empty_database.execute_sql("DELETE FROM regsvc_migration")
        migrate(empty_database, clock)
        assert read_schema(empty_database) == made


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_migration_that_was_interrupted_between_two_indexes_goes_on(
    empty_database: Database, clock: ManualClock
) -> None:
    migrate(empty_database, clock)
    made = read_schema(empty_database)
    for trigger in ("regsvc_audit_is_not_deleted", "regsvc_audit_is_not_changed"):
        empty_database.execute_sql(f"DROP TRIGGER {trigger}")
    empty_database.execute_sql("DROP INDEX regsvc_audit_newest ON regsvc_audit")
    empty_database.execute_sql("DELETE FROM regsvc_migration")
    migrate(empty_database, clock)
    assert read_schema(empty_database) == made
    test_the_audit_log_is_append_only_for_people_who_type_sql(empty_database, clock)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_sqlite_makes_all_of_a_migration_or_nothing(
    empty_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ModuleType("broken")
    vars(broken)["TABLES"] = f"{list_migrations()[0].module.TABLES};\nCREATE TABLE regsvc_twice (id {{id}}, id {{id}})"
    with monkeypatch.context() as patched:
        patched.setattr(migrator, "list_migrations", lambda: [NumberedMigration(BASELINE, "broken", broken)])
        with pytest.raises(OperationalError, match="duplicate column"):
            migrate(empty_database, clock)
    assert {part.table for part in read_schema(empty_database)} == {"regsvc_migration"}
    migrate(empty_database, clock)
    assert Migration.select().count() == len(list_migrations())


def test_a_login_that_may_not_make_triggers_goes_without(
    mariadb: MariaDBServer, database: MariaDBSchema, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    mariadb.run_as_root(f"REVOKE TRIGGER ON `{database.name}`.* FROM '{database.user}'@'%'")
    opened = open_database(database.url, timedelta(seconds=5))
    bind_models(opened)
    with opened.connection_context():
        migrate(opened, clock)
        assert "not allowed to create triggers" in caplog.text
        assert Migration.select().count() == len(list_migrations())


@pytest.mark.parametrize("statements", range(4))
def test_columns_are_added_however_often_it_is_interrupted(
    our_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    second = add_migration(monkeypatch)
    reached, execute = iter(range(statements)), migrator._execute_once

    def execute_some(database: Database, statement: str) -> None:
        if next(reached, None) is None:
            raise Interrupted
        execute(database, statement)

    with monkeypatch.context() as patched:
        patched.setattr(migrator, "_execute_once", execute_some)
        with pytest.raises(Interrupted):
            migrate(our_database, clock)
    assert migrate(our_database, clock) == [f"{second.number:04} second"]
    our_database.execute_sql("UPDATE regsvc_lease SET noted = 1, noted_at = '2031-05-04 12:00:00.000'")
    assert "regsvc_lease_noted" in {index.name for index in our_database.get_indexes("regsvc_lease")}


# --- other versions ---


def test_a_newer_database_is_refused_before_anything_is_touched(empty_database: Database, clock: ManualClock) -> None:
    migrate(empty_database, clock)
    newest = list_migrations()[-1].number
    Migration.create(number=newest + 1, name="from_the_future", applied_at=clock())
    made = read_schema(empty_database)
    with pytest.raises(UnusableSchema, match=f"migration {newest + 1}, but this version knows only {newest}"):
        migrate(empty_database, clock)
    assert read_schema(empty_database) == made


def test_a_second_migration_is_applied_after_the_first(
    empty_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_database, clock)
    User.insert(
        username="Alice",
        username_key="alice",
        status="pending",
        applied_status="pending",
        origin="registered",
        created_at=clock(),
    ).execute()
    second = add_migration(monkeypatch)
    assert migrate(empty_database, clock) == [f"{second.number:04} second"]
    assert [column.name for column in empty_database.get_columns("regsvc_second")] == ["id", "noted_at"]
    copies = list(copies_of(empty_database))
    if isinstance(empty_database, SqliteDatabase):
        [copy] = copies
        assert copy.stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(copy)) as before:
            assert before.execute("SELECT username FROM regsvc_user").fetchall() == [("Alice",)]
            assert before.execute("SELECT name FROM sqlite_master WHERE name = 'regsvc_second'").fetchall() == []
            assert before.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    else:
        assert copies == []
    assert migrate(empty_database, clock) == []


def test_a_first_migration_has_nothing_to_copy(empty_database: Database, clock: ManualClock) -> None:
    migrate(empty_database, clock)
    assert list(copies_of(empty_database)) == []


# --- AuthMe's table ---


def test_authmes_table_is_not_touched(
    authme_table: AuthMeTable, our_database: Database, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """On MariaDB it is beside ours, in the same schema."""
    insert_player(authme_table, username="alice", realname="Alice", password="x", regdate=1)
    before = dump_table(authme_table)
    Migration.delete().execute()
    if not isinstance(our_database, SqliteDatabase):
        with caplog.at_level(logging.DEBUG, "peewee"):
            migrate(our_database, clock)
        assert "regsvc_user" in caplog.text
        assert authme_table.name not in caplog.text.replace("authme-password", "")
    assert dump_table(authme_table) == before


def first_statements() -> list[str]:
    return [statement.strip() for statement in list_migrations()[0].module.TABLES.split(";\n") if statement.strip()]


class Interrupted(Exception):
    """Raised in place of a power cut."""


def add_migration(monkeypatch: pytest.MonkeyPatch) -> NumberedMigration:
    module = ModuleType("second")
    vars(module)["TABLES"] = (
        "CREATE TABLE regsvc_second (\n"
        "  id       {id}, -- in order\n"
        "  noted_at {moment} NULL -- when; it's only a test\n"
        ");\n"
        "ALTER TABLE regsvc_lease\n  ADD COLUMN noted {bool} NOT NULL DEFAULT 0 -- whether it's a test\n;\n"
        "ALTER TABLE regsvc_lease\n  ADD COLUMN noted_at {moment} NULL -- when\n;\n"
        "CREATE INDEX regsvc_lease_noted ON regsvc_lease (noted_at);\n"
    )
    known = list_migrations()
    second = NumberedMigration(known[-1].number + 1, "second", module)
    monkeypatch.setattr(migrator, "list_migrations", lambda: [*known, second])
    return second


def copies_of(database: Database) -> Iterator[Path]:
    if isinstance(database, SqliteDatabase):
        path = Path(database.database)
        yield from path.parent.glob(f"{path.name}.before-*")
