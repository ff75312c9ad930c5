"""The views answer operators' questions, hold no secrets, and are created wherever the login is allowed to."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from peewee import Database

from regsvc.core.email_address import parse_email
from regsvc.database.audit import Actor
from regsvc.database.engine import open_database
from regsvc.database.migrations import m0100_baseline
from regsvc.database.migrator import migrate
from regsvc.database.models import Link, Migration, SyncRecord, User, UtcDateTimeField, Verification, bind_models
from tests.generators.schema import list_views
from tests.support.authme.authme_database import Row
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock
from tests.support.peers.mariadb import Database as Schema
from tests.support.peers.mariadb import MariaDBServer
from tests.support.services import ServiceHarness, open_services

VIEWS = [view.name for view in list_views()]
WEEK = timedelta(days=7)

mariadb_only = pytest.mark.parametrize("database_kind", ["mariadb"])


@pytest.fixture
def services(
    game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock, tmp_path: Path
) -> Iterator[ServiceHarness]:
    opened = open_services(game_server, authme_table, clock, tmp_path / "state")
    yield opened
    opened.close()


def moment(value: object) -> datetime | None:
    """Convert a time as either database returns it to SQL users."""
    return UtcDateTimeField().python_value(value)


# --- the review queue ---


def test_the_queue_has_who_waits_and_since_when(services: ServiceHarness) -> None:
    came_at = services.clock()
    services.register("Alice")
    services.clock.advance(hours=1)
    services.register("Bob")
    services.decide("approve", "Bob")
    [waiting] = services.ours.query("SELECT * FROM regsvc_v_review_queue")
    assert (waiting["username"], waiting["email"]) == ("Alice", "alice@example.org")
    assert moment(waiting["registered_at"]) == came_at
    assert (waiting["plugin_state"], waiting["times_rejected"], waiting["last_rejected_at"]) == ("absent", 0, None)
    assert (waiting["waiting_for"], waiting["answered_at"]) == ("review", None)


def test_the_conversation_with_an_applicant_can_be_read(services: ServiceHarness) -> None:
    services.register("Alice")
    services.ask("Alice")
    [asked] = services.ours.query("SELECT * FROM regsvc_v_questions")
    assert (asked["author"], asked["question"], asked["answer"], asked["is_open"]) == ("Olivia", "Which Bob?", None, 1)
    [waiting] = services.ours.query("SELECT * FROM regsvc_v_review_queue")
    assert waiting["waiting_for"] == "applicant"
    services.clock.advance(hours=1)
    services.answer("Alice")
    [asked] = services.ours.query("SELECT * FROM regsvc_v_questions")
    assert (asked["answer"], asked["is_open"]) == ("The builder.", 0)
    [waiting] = services.ours.query("SELECT * FROM regsvc_v_review_queue")
    assert (waiting["waiting_for"], moment(waiting["answered_at"])) == ("review", services.clock())


def test_the_queue_tells_that_somebody_took_the_name_in_the_game(services: ServiceHarness) -> None:
    services.register("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", "foreign-password")
    services.clock.advance(minutes=1)
    services.sync()
    [waiting] = services.ours.query("SELECT * FROM regsvc_v_review_queue")
    assert (waiting["plugin_state"], moment(waiting["plugin_since"])) == ("conflict", services.clock())


def test_the_queue_remembers_earlier_rejections(services: ServiceHarness) -> None:
    services.register("Alice")
    services.decide("reject", "Alice", reason="come back when you are twelve")
    rejected_at = services.clock()
    services.decide("delete", "Alice")
    services.clock.advance(days=1)
    services.register("Alice")
    [waiting] = services.ours.query("SELECT * FROM regsvc_v_review_queue")
    assert (waiting["times_rejected"], moment(waiting["last_rejected_at"])) == (1, rejected_at)


# --- users ---


def test_the_users_show_status_player_and_ban(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.approved("Bob", password=None)
    services.decide("ban", "Alice", reason="griefing", expires_at=services.clock() + WEEK)
    alice, bob = services.ours.query("SELECT * FROM regsvc_v_users ORDER BY username_key")
    assert (alice["status"], alice["banned_from"], alice["reason"]) == ("banned", "approved", "griefing")
    assert (alice["reviewed_by"], moment(alice["ban_expires_at"])) == ("Olivia", services.clock() + WEEK)
    assert (alice["plugin_state"], alice["has_password"]) == ("locked", 1)
    assert (bob["status"], bob["plugin_state"], bob["has_password"]) == ("approved", "absent", 0)


def test_a_user_whom_no_run_has_looked_at_is_shown_as_pending(our_database: Database, make_user: MakeUser) -> None:
    make_user("Alice")
    assert [row[0] for row in our_database.execute_sql("SELECT plugin_state FROM regsvc_v_users")] == ["pending"]


# --- the drift ---


def drift(services: ServiceHarness) -> dict[str, Row]:
    """By name; one name differs in one way in these stories."""
    return {row["username"]: row for row in services.ours.query("SELECT * FROM regsvc_v_sync_drift")}


def test_where_both_sides_agree_there_is_no_drift(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.register("Bob")
    services.approved("Carol")
    services.decide("delete", "Carol")
    services.sync()
    assert drift(services) == {}


def test_the_drift_has_a_name_that_came_back(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.approved("Bob")  # an empty table would hold everything back
    services.authme.unregister_from_console("Alice")
    services.clock.advance(hours=1)
    services.sync()
    gone = drift(services)["Alice"]
    assert (gone["difference"], moment(gone["found_at"])) == ("absent", services.clock())
    assert gone["why"] == "the player was there and is gone: unregistered in the game, or purged"
    services.clock.advance(hours=1)
    services.authme.register("Alice", "foreign-password")
    services.sync()
    back = drift(services)["Alice"]
    assert (back["difference"], back["lock_reason"]) == ("returned", "returned")
    assert (moment(back["found_at"]), moment(back["locked_at"])) == (services.clock(), services.clock())


def test_the_drift_has_who_has_no_password_yet(services: ServiceHarness) -> None:
    services.approved("Alice", password=None)
    services.register("Bob")
    assert {name: row["difference"] for name, row in drift(services).items()} == {"Alice": "absent"}
    assert "mailed link" in drift(services)["Alice"]["why"]


def test_the_drift_has_locks_with_their_reason(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice")
    assert (drift(services)["Alice"]["difference"], drift(services)["Alice"]["lock_reason"]) == ("locked", "banned")
    assert drift(services)["Alice"]["why"] == "locked until the ban ends"


def test_the_drift_has_rows_that_are_not_the_applicants(services: ServiceHarness) -> None:
    services.register("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", "foreign-password")
    services.sync()
    assert drift(services)["Alice"]["difference"] == "conflict"
    assert drift(services)["Alice"]["why"] == "the game has a row of this name that is not this user's"


def test_the_drift_has_fields_that_cannot_be_agreed_on(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.set_email("Alice", "another@example.org")
    services.sync()
    assert (drift(services)["Alice"]["difference"], drift(services)["Alice"]["conflict"]) == ("conflict", "email")
    assert "neither gives way" in drift(services)["Alice"]["why"]


def test_the_drift_has_what_is_about_to_be_written(services: ServiceHarness) -> None:
    """Leave a record as a crash does between the promise and the row."""
    services.approved("Alice")
    SyncRecord.update(plugin_state="pending", intent="provision").execute()
    assert (drift(services)["Alice"]["difference"], drift(services)["Alice"]["intent"]) == ("pending", "provision")


def test_the_drift_has_what_was_typed_and_not_carried_out_yet(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.approved("Bob")
    services.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key = 'alice'")
    services.ours.execute("DELETE FROM regsvc_user WHERE username_key = 'bob'")
    typed = drift(services)
    assert {name: row["difference"] for name, row in typed.items()} == {"Alice": "edited", "bob": "deleted"}
    assert typed["Alice"]["found_at"] is None
    services.sync()
    assert {name: row["difference"] for name, row in drift(services).items()} == {"Alice": "locked"}


# --- the audit log and the outbox ---


def test_the_recent_audit_is_the_newest_thousand(services: ServiceHarness) -> None:
    audit = services.app.audit
    with services.app.context.location.database.atomic():
        for number in range(1005):
            audit.record("user.logged_in", Actor("Alice"), "Alice", {"number": number})
    recent = services.ours.query("SELECT * FROM regsvc_v_recent_audit ORDER BY id DESC")
    assert [json.loads(row["detail"])["number"] for row in recent] == list(range(1004, 4, -1))
    assert (recent[0]["action"], recent[0]["operator"], recent[0]["target"]) == ("user.logged_in", "Alice", "Alice")


def test_the_outbox_tells_what_became_of_each_mail(services: ServiceHarness) -> None:
    outbox = services.app.outbox
    outbox.put("verification_code", parse_email("alice@example.org"), "en", row_id=1)
    services.register("Alice")
    services.decide("reject", "Alice")
    services.decide("approve", "Alice")
    services.decide("ban", "Alice")
    outbox.drop(outbox.claim_due(1)[0], "the code has expired")
    outbox.drop(outbox.claim_due(1)[0], "the registration was reviewed meanwhile")
    outbox.record_sent(outbox.claim_due(1)[0])
    outbox.record_failure(outbox.claim_due(1)[0], "550 no such mailbox", is_final=True)
    outbox.record_failure(outbox.claim_due(1)[0], "450 try again", is_final=False)
    rows = services.ours.query("SELECT * FROM regsvc_v_outbox ORDER BY id")
    assert [row["state"] for row in rows] == ["dropped", "dropped", "sent", "failed", "waiting"]
    assert [row["template"] for row in rows] == ["verification_code", "received", "rejected", "approved", "banned"]
    assert [row["username"] for row in rows] == [None, "Alice", "Alice", "Alice", "Alice"]
    assert rows[3]["last_error"] == "550 no such mailbox"
    assert (rows[3]["next_attempt_at"], rows[3]["done_at"] is not None) == (None, True)
    assert (rows[4]["next_attempt_at"] is not None, rows[4]["done_at"]) == (True, None)


# --- what they must not show, and where they come from ---


def test_nothing_secret_stands_in_a_view(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice", reason="griefing")
    services.approved("Bob")
    services.login("Bob", "the-web-password")
    shown = "\n".join(str(list(row.values())) for view in VIEWS for row in services.ours.query(f"SELECT * FROM {view}"))
    assert "griefing" in shown
    user, player, code = User.get(), SyncRecord.get(), Verification.get()
    secrets = [user.password_hash, user.password_salt, player.base_hash, player.kept_hash, code.nonce]
    secrets += [row["jti"] for row in services.ours.query("SELECT jti FROM regsvc_session")]
    secrets += [link.nonce for link in Link.select()]
    assert player.kept_hash
    assert [secret for secret in secrets if secret and secret in shown] == []


def test_no_view_has_a_column_for_a_secret() -> None:
    secret = re.compile(r"hash|salt|nonce|jti|tally|premium|token")
    columns = {f"{view.name}.{column.name}" for view in list_views() for column in view.columns}
    assert not [column for column in columns if secret.search(column)]


def test_views_read_our_tables_alone() -> None:
    read = set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", m0100_baseline.VIEWS))
    assert read == {"regsvc_user", "regsvc_sync_record", "regsvc_review", "regsvc_audit", "regsvc_outbox"}


# --- how they are made ---


def names_of_views(database: Database) -> list[str]:
    return sorted(view.name for view in database.get_views())


def test_views_that_are_missing_are_made_once_the_migration_is_forgotten(
    our_database: Database, clock: ManualClock
) -> None:
    """As docs/schema.md tells whoever may create views at last."""
    for view in VIEWS[2:]:
        our_database.execute_sql(f"DROP VIEW {view}")
    Migration.delete().where(Migration.name.in_(("baseline", "applications"))).execute()
    assert migrate(our_database, clock) == ["0100 baseline", "0107 applications"]
    assert names_of_views(our_database) == sorted(VIEWS)
    assert migrate(our_database, clock) == []


@mariadb_only
def test_whoever_asks_a_view_asks_with_their_own_rights(our_database: Database) -> None:
    rows = our_database.execute_sql(
        "SELECT security_type FROM information_schema.views WHERE table_schema = DATABASE()"
    ).fetchall()
    assert set(rows) == {("INVOKER",)}


def test_a_login_that_may_not_make_views_goes_without(
    mariadb: MariaDBServer, database: Schema, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    right = f"CREATE VIEW ON `{database.name}`.*"
    mariadb.run_as_root(f"REVOKE {right} FROM '{database.user}'@'%'")
    ours = open_database(database.url, timedelta(seconds=20))
    bind_models(ours)
    with ours.connection_context(), caplog.at_level(logging.WARNING):
        migrate(ours, clock)
        assert names_of_views(ours) == []
        advice = re.findall(r"DELETE FROM .*'", caplog.text)
        mariadb.run_as_root(f"GRANT {right} TO '{database.user}'@'%'")
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        for statement in advice:
            cursor.execute(statement)
    with ours.connection_context():
        migrate(ours, clock)
        assert names_of_views(ours) == sorted(VIEWS)
