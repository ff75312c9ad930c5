"""What a database of ours lacks is found, named and repaired; what a host adds is theirs."""

import pytest
from peewee import Database, SqliteDatabase

from regsvc.database.migrator import list_migrations, migrate
from regsvc.database.models import Migration
from regsvc.database.schema import Schema, expected_schema, find_differences, read_schema
from tests.support.manual_clock import ManualClock

DROP_QUEUE = {"sqlite": "DROP INDEX regsvc_user_queue", "mariadb": "DROP INDEX regsvc_user_queue ON regsvc_user"}


@pytest.fixture
def expected(our_database: Database) -> Schema:
    return expected_schema(list_migrations(), is_sqlite=isinstance(our_database, SqliteDatabase))


def sentences(database: Database, expected: Schema) -> set[str]:
    return {str(it.sentence) for it in find_differences(read_schema(database), expected)}


def test_what_migrations_make_is_known_without_a_server(our_database: Database, expected: Schema) -> None:
    found = read_schema(our_database)
    assert find_differences(found, expected) == []
    assert {part for part in found if part.kind != "text"} == {part for part in expected if part.kind != "text"}
    assert len(expected) > 400

    older = [migration for migration in list_migrations() if migration.number <= 104]
    made = expected_schema(older, is_sqlite=isinstance(our_database, SqliteDatabase))
    assert not any(part.table == "regsvc_allowlist" for part in made), "which a later one made"
    differing = {str(it.part) for it in find_differences(found, made)}
    assert "index regsvc_user_status of regsvc_user" in differing, "which a later one dropped"


def test_each_difference_is_named_and_the_migration_repairs_what_it_can(
    our_database: Database, expected: Schema, clock: ManualClock
) -> None:
    kind = "sqlite" if isinstance(our_database, SqliteDatabase) else "mariadb"
    table_of_audit = "" if kind == "sqlite" else " ON regsvc_audit"
    cases = {
        f"DROP INDEX regsvc_audit_newest{table_of_audit}": "The index regsvc_audit_newest of regsvc_audit is missing.",
        "DROP VIEW regsvc_v_outbox": "The view regsvc_v_outbox is missing.",
        "DROP TRIGGER regsvc_audit_is_not_deleted": "The trigger regsvc_audit_is_not_deleted of regsvc_audit is "
        "missing.",
        "DROP TABLE regsvc_reader": "The table regsvc_reader is missing.",
        "ALTER TABLE regsvc_link DROP COLUMN undoes": "The column undoes of regsvc_link is missing.",
        DROP_QUEUE[kind]: "The index regsvc_user_queue of regsvc_user is missing.",
        "CREATE INDEX regsvc_user_queue ON regsvc_user (status, id)": "The index regsvc_user_queue of regsvc_user "
        "is (status, id), and should be (status, is_asked, created_at, id, username_key).",
        "DROP VIEW regsvc_v_users": "The view regsvc_v_users is missing.",
        "CREATE VIEW regsvc_v_users AS SELECT id FROM regsvc_user": "The view regsvc_v_users is another one than ours.",
    }
    named = set[str]()
    for statement, sentence in cases.items():
        our_database.execute_sql(statement)
        found = sentences(our_database, expected)
        assert found - named == {sentence}, statement
        named = found

    Migration.delete().where(Migration.number == 113).execute()
    assert len(migrate(our_database, clock)) == 1
    assert sentences(our_database, expected) == set()


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_what_the_migration_cannot_repair_is_named(our_database: Database, expected: Schema) -> None:
    for statement in (
        "ALTER TABLE regsvc_setting MODIFY value VARCHAR(20) NOT NULL",
        "ALTER TABLE regsvc_token DROP INDEX active_name",
        "ALTER TABLE regsvc_token MODIFY maker VARCHAR(255) NULL",
        "ALTER TABLE regsvc_chat_link DROP FOREIGN KEY regsvc_chat_link_ibfk_1",
        "ALTER TABLE regsvc_outbox ALTER attempts DROP DEFAULT",
    ):
        our_database.execute_sql(statement)
    assert sentences(our_database, expected) == {
        "The column value of regsvc_setting is varchar(20) not null, and should be mediumtext not null.",
        "The unique index (active_name) of regsvc_token is missing.",
        "The column maker of regsvc_token is varchar(255) null, and should be varchar(255) not null.",
        "The foreign key user_id of regsvc_chat_link is missing.",
        "The column attempts of regsvc_outbox is int not null, and should be int not null default '0'.",
    }


def test_what_a_host_adds_or_widens_is_theirs(our_database: Database, expected: Schema, clock: ManualClock) -> None:
    statements = [
        "CREATE INDEX hosts_own ON regsvc_user (last_login_at)",
        "CREATE UNIQUE INDEX regsvc_hosts_own ON regsvc_note (id, author)",
        "CREATE VIEW regsvc_v_mine AS SELECT username FROM regsvc_user",
        "CREATE TABLE regsvc_mine (id INTEGER PRIMARY KEY)",
        "ALTER TABLE regsvc_note ADD COLUMN colour VARCHAR(20) NULL",
        "CREATE TRIGGER mine AFTER INSERT ON regsvc_note FOR EACH ROW BEGIN DELETE FROM regsvc_mine; END",
    ]
    if not isinstance(our_database, SqliteDatabase):
        statements += [
            "ALTER TABLE regsvc_user MODIFY reason LONGTEXT NULL",
            "ALTER TABLE regsvc_note MODIFY author VARCHAR(300) NOT NULL",
            "ALTER TABLE regsvc_setting CONVERT TO CHARACTER SET latin1",
            "ALTER TABLE regsvc_team_chat_event ENGINE=MyISAM",
            "ALTER TABLE regsvc_user COMMENT 'ours'",
        ]
    for statement in statements:
        our_database.execute_sql(statement)
    assert sentences(our_database, expected) == set()
    mine = read_schema(our_database)
    Migration.delete().where(Migration.number == 113).execute()
    assert len(migrate(our_database, clock)) == 1
    assert read_schema(our_database) == mine
