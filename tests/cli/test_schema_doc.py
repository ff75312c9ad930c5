"""docs/schema.md is current and complete, and what it says about SQL is true."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from peewee import Database

from regsvc.core.errors import BadCredentials, Unauthorized
from regsvc.database.models import MODELS, OutboxEntry, User, UtcDateTimeField
from regsvc.users.transitions import TRANSITIONS
from tests.generators.schema import SCHEMA_FILE, list_tables, list_views, main
from tests.support.authme.authme_database import Row
from tests.support.authme.authme_tables import AuthMeTable, find_player
from tests.support.authme.game_server import GameServer
from tests.support.manual_clock import ManualClock
from tests.support.services import PASSWORD, ServiceHarness, open_services

PAGE = SCHEMA_FILE.read_text(encoding="utf-8")
NAMES = (
    *("review_queue", "banned", "story_of_alice", "undelivered_mails", "drift", "rejected_names"),
    *("logins_by_address", "approvals_by_month", "ban", "unban", "delete"),
)
QUERIES = dict(zip(NAMES, re.findall(r"```sql\n(.+?);\n```", PAGE, re.DOTALL), strict=True))
"""The example queries of the page, in its order."""


Ask = Callable[[str], list[Row]]


@pytest.fixture
def services(
    game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock, tmp_path: Path
) -> Iterator[ServiceHarness]:
    open_connection = open_services(game_server, authme_table, clock, tmp_path / "state")
    yield open_connection
    open_connection.close()


@pytest.fixture
def ask(services: ServiceHarness) -> Ask:
    """Return the result of an example query in a shell of the database."""
    return lambda name: services.ours.query(QUERIES[name])


def type_sql(services: ServiceHarness, name: str) -> None:
    """Run an example query that changes one row."""
    assert services.ours.execute(QUERIES[name]) == 1


# --- the page ---


def test_the_page_in_the_repository_is_current() -> None:
    assert main(["--check"]) == 0, "run: make sample"


def test_check_notices_a_page_that_is_not_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.md"
    file.write_text(PAGE.replace("* `status` VARCHAR(16):", "* `state` VARCHAR(16):"), encoding="utf-8")
    assert main(["--check"], file) == 1
    assert "make sample" in capsys.readouterr().err
    assert main([], file) == 0
    assert file.read_text(encoding="utf-8") == PAGE


def test_every_column_of_every_table_is_explained(our_database: Database) -> None:
    explained = {table.name: [column.name for column in table.columns] for table in list_tables()}
    models = {model._meta.table_name: [field.column_name for field in model._meta.sorted_fields] for model in MODELS}
    assert {name: sorted(columns) for name, columns in explained.items()} == {
        name: sorted(columns) for name, columns in models.items()
    }
    assert set(our_database.get_tables()) - {"sqlite_sequence"} == set(explained)
    for table, columns in explained.items():
        assert columns_of(our_database, table) == columns


def test_every_column_of_every_view_is_explained(our_database: Database) -> None:
    explained = {view.name: [column.name for column in view.columns] for view in list_views()}
    assert sorted(view.name for view in our_database.get_views()) == sorted(explained)
    for view, columns in explained.items():
        assert columns_of(our_database, view) == columns


def columns_of(database: Database, relation: str) -> list[str]:
    return [column[0] for column in database.execute_sql(f"SELECT * FROM {relation}").description]


def test_the_types_and_choices_are_those_of_the_database() -> None:
    users = next(table for table in list_tables() if table.name == "regsvc_user")
    columns = {column.name: column for column in users.columns}
    assert (columns["id"].type, columns["username"].type, columns["created_at"].type) == (
        "BIGINT",
        "VARCHAR(255)",
        "DATETIME(3)",
    )
    assert columns["status"].choices == ("pending", "approved", "rejected", "banned")
    assert [name for name in ("username", "email") if columns[name].may_be_empty] == ["email"]


def test_every_note_reads_in_the_page_as_it_was_written() -> None:
    assert "* `status` VARCHAR(16): desired status; operators may edit it; one of `pending`, `approved`" in PAGE
    assert r"cli:\<unix user>" in PAGE


def test_every_example_query_has_its_story() -> None:
    assert not [name for name in QUERIES if f"test_query_{name}" not in globals()]


# --- example queries that read ---


def test_query_review_queue(services: ServiceHarness, ask: Ask) -> None:
    services.register("Bob")
    services.clock.advance(minutes=1)
    services.register("Alice")
    services.approved("Carol")
    waiting = ask("review_queue")
    assert [row["username"] for row in waiting] == ["Bob", "Alice"]
    assert UtcDateTimeField().python_value(waiting[1]["registered_at"]) == services.clock()


def test_query_banned(services: ServiceHarness, ask: Ask) -> None:
    for name, days in (("Alice", None), ("Bob", 9), ("Carol", 2)):
        services.approved(name)
        services.decide(
            "ban", name, reason="griefing", expires_at=services.clock() + timedelta(days=days) if days else None
        )
    services.approved("Dora")
    banned = ask("banned")
    assert [row["username"] for row in banned] == ["Carol", "Bob", "Alice"]
    assert UtcDateTimeField().python_value(banned[0]["ban_expires_at"]) == services.clock() + timedelta(days=2)
    assert (banned[2]["ban_expires_at"], banned[2]["reason"], banned[2]["reviewed_by"]) == (None, "griefing", "Olivia")


def test_query_story_of_alice(services: ServiceHarness, ask: Ask) -> None:
    services.approved("Alice")
    services.approved("Bob")
    services.decide("ban", "Alice", reason="griefing")
    type_sql(services, "delete")
    services.sync()
    story = ask("story_of_alice")
    assert [(row["action"], row["operator"]) for row in story] == [
        ("user.registered", "Alice"),
        ("user.approved", "Olivia"),
        ("user.banned", "Olivia"),
        ("user.deleted", "sql"),
    ]
    assert '"reason":"griefing"' in story[2]["detail"]


def test_query_undelivered_mails(services: ServiceHarness, ask: Ask) -> None:
    for name in ("Alice", "Bob", "Carol"):
        services.approved(name)
    OutboxEntry.delete().where(OutboxEntry.template == "received").execute()
    outbox = services.app.outbox
    alice, bob = outbox.claim_due(2)
    outbox.record_sent(alice)
    outbox.record_failure(bob, "550 no such mailbox", is_final=True)
    mails = ask("undelivered_mails")
    assert [(row["recipient"], row["state"]) for row in mails] == [
        ("bob@example.org", "failed"),
        ("carol@example.org", "waiting"),
    ]
    assert mails[0]["last_error"] == "550 no such mailbox"


def test_query_drift(services: ServiceHarness, ask: Ask) -> None:
    services.approved("Alice")
    services.approved("Bob")
    services.decide("ban", "Bob")
    services.authme.unregister_from_console("Alice")
    services.sync()
    assert [(row["username"], row["difference"], row["why"]) for row in ask("drift")] == [
        ("Alice", "absent", "the player was there and is gone: unregistered in the game, or purged"),
        ("Bob", "locked", "locked until the ban ends"),
    ]


def test_query_rejected_names(services: ServiceHarness, ask: Ask) -> None:
    services.register("Alice")
    services.decide("reject", "Alice", reason="too young")
    services.decide("approve", "Alice")
    services.register("Bob")
    services.decide("reject", "Bob")
    services.decide("delete", "Bob")
    assert [(row["username"], row["reason"], row["status_now"]) for row in ask("rejected_names")] == [
        ("Bob", None, None),
        ("Alice", "too young", "approved"),
    ]


def test_query_logins_by_address(services: ServiceHarness, ask: Ask) -> None:
    services.approved("Alice")
    for _time in range(2):
        services.clock.advance(days=1)
        services.login("Alice", PASSWORD)
    services.clock.advance(minutes=1)
    for _time in range(3):
        with pytest.raises(BadCredentials):
            services.login("Alice", "a guess")
    guesses, logins = ask("logins_by_address")
    assert (guesses["action"], int(guesses["times"])) == ("user.login_failed", 3)
    assert (logins["action"], int(logins["times"]), logins["ip"]) == ("user.logged_in", 2, "198.51.100.7")
    first, last = (UtcDateTimeField().python_value(logins[name]) for name in ("first_at", "last_at"))
    assert first is not None
    assert last == first + timedelta(days=1)


def test_query_approvals_by_month(services: ServiceHarness, ask: Ask) -> None:
    for name in ("Alice", "Bob"):
        services.approved(name)
    services.clock.advance(days=31)
    services.approved("Carol")
    services.register("Dora")
    services.ours.execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'dora'")
    services.sync()
    months = [(row["month"], row["operator"], row["approvals"]) for row in ask("approvals_by_month")]
    assert sorted(months[:2]) == [("2031-06", "Olivia", 1), ("2031-06", "sql", 1)]
    assert months[2:] == [("2031-05", "Olivia", 2)]


# --- example queries that write, and their effects within one sync run ---


def test_query_ban(services: ServiceHarness) -> None:
    services.approved("Alice")
    token = services.login("Alice", PASSWORD).token
    type_sql(services, "ban")
    with pytest.raises(Unauthorized):
        services.app.sessions.authenticate(token)
    services.sync()
    alice = services.user("Alice")
    assert (alice.status, alice.applied_status, alice.reason) == ("banned", "banned", "griefing")
    assert not services.authme.login("Alice", PASSWORD)
    assert [entry.operator for entry in services.audits("user.banned", "Alice")] == ["sql"]
    assert services.mails("Alice") == ["approved", "banned"]


def test_query_unban(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice")
    type_sql(services, "unban")
    services.sync()
    assert services.user("Alice").applied_status == "approved"
    assert services.authme.login("Alice", PASSWORD)
    assert [entry.operator for entry in services.audits("user.unbanned", "Alice")] == ["sql"]
    assert services.mails("Alice") == ["approved", "banned", "unbanned"]


def test_query_delete(services: ServiceHarness) -> None:
    services.approved("Alice")
    token = services.login("Alice", PASSWORD).token
    type_sql(services, "delete")
    with pytest.raises(Unauthorized):
        services.app.sessions.authenticate(token)
    services.sync()
    assert find_player(services.table, "alice") is None
    assert [entry.operator for entry in services.audits("user.deleted")] == ["sql"]
    assert services.ours.query("SELECT transition FROM regsvc_review") == [{"transition": "approve"}]


# --- edits that are reverted ---


def test_every_edit_that_the_page_lists_is_carried_out(services: ServiceHarness) -> None:
    edits = [
        (source, change.target)
        for change in TRANSITIONS.values()
        if change.target and change.is_by_sql
        for source in sorted(change.sources)
    ]
    for number, (source, target) in enumerate(edits):
        services.approved(f"Player{number}")
        User.update(status=source, applied_status=source).where(User.username == f"Player{number}").execute()
        services.ours.execute("UPDATE regsvc_user SET status = ? WHERE username_key = ?", (target, f"player{number}"))
    services.sync()
    assert [user.applied_status for user in User.select().order_by(User.id)] == [target for _source, target in edits]
    assert services.audits("sync.edit_refused") == []


def test_an_edit_without_where_waits_for_a_word(services: ServiceHarness) -> None:
    for number in range(21):
        services.approved(f"Player{number}")
    assert services.ours.execute("UPDATE regsvc_user SET status = 'banned'") == 21
    services.sync()
    assert {row["difference"] for row in services.ours.query(QUERIES["drift"])} == {"edited"}
    assert services.authme.login("Player7", PASSWORD)
    services.ours.execute("UPDATE regsvc_user SET status = applied_status")
    assert services.sync().held_back is None
    assert services.ours.query(QUERIES["drift"]) == []
