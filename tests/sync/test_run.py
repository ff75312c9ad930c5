"""Whole runs: the mass-change guard, SQL edits, reports, and one run at a time."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import to_builtins

from regsvc.core import errors
from regsvc.database.models import APPROVED, BANNED, SyncRecord, User
from regsvc.sync.report import SyncReport, describe_plan
from regsvc.sync.service import SyncService
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_tables import AuthMeTable, create_table, dump_table, find_player
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.database_fixtures import insert_whole
from tests.support.manual_clock import ManualClock
from tests.support.services import PASSWORD, Away, MakeServices, ServiceHarness

pytestmark = pytest.mark.every_database

MANY = 240
"""More than a page."""


@pytest.fixture
def adopted_players(make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock) -> ServiceHarness:
    """A hundred adopted players."""
    insert_player_rows(authme_table, make_player_rows(100, clock))
    services = make_services()
    services.sync()
    return services


def run_sql(services: ServiceHarness, statement: str, *values: object) -> None:
    services.ours.execute(statement, values)


def run_game_sql(services: ServiceHarness, assignment: str) -> None:
    services.table.database.execute(f"UPDATE {services.table.name} {assignment}")


def remove_rows(services: ServiceHarness, *digits: int) -> int:
    """Remove the rows whose number ends in one of these digits; return how many."""
    return sum(
        services.table.database.execute(
            f"DELETE FROM {services.table.name} WHERE username LIKE ?", (f"player%{digit}",)
        )
        for digit in digits
    )


# --- the mass-change guard ---


def test_a_crowd_adopted_as_pending_is_not_locked_before_somebody_says_so(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    insert_player_rows(authme_table, make_player_rows(MANY, clock))
    before = dump_table(authme_table)
    services = make_services(sync__existing_players="pending")
    for adopted in (MANY, 0):
        report = services.sync()
        assert (report.adopted, report.locked) == (adopted, 0)
        assert report.held_back is not None
        assert (report.held_back.locked, report.held_back.removed, report.held_back.limit) == (MANY, 0, "20 and 5%")
    assert dump_table(authme_table) == before
    assert len(services.audits("sync.braked")) == 1
    assert services.plan().held_back == report.held_back

    allowed = services.sync(allow_mass_changes=True)
    assert (allowed.locked, allowed.held_back) == (MANY, None)
    assert all(row["password"] != was["password"] for row, was in zip(dump_table(authme_table), before, strict=True))
    assert services.sync().counts() == {"scanned": MANY}


@pytest.mark.parametrize("how", ["DELETE FROM", "DROP TABLE"])
# R54
def test_a_table_that_is_suddenly_empty_is_not_believed(adopted_players: ServiceHarness, how: str) -> None:
    adopted_players.table.database.execute(f"{how} {adopted_players.table.name}")
    if how == "DROP TABLE":
        assert [error.username for error in adopted_players.sync().errors] == [None]
        create_table(adopted_players.table)
    report = adopted_players.sync()
    assert (report.removed, report.scanned) == (0, 0)
    assert report.held_back is not None
    assert report.held_back.removed == 100
    assert SyncRecord.select().where(SyncRecord.presence == "present").count() == 100
    assert adopted_players.sync(allow_mass_changes=True).removed == 100
    assert SyncRecord.select().where(SyncRecord.presence == "gone").count() == 100


def test_more_removals_than_the_limit_are_left_and_only_they(adopted_players: ServiceHarness) -> None:
    assert remove_rows(adopted_players, 0, 1, 2) == 30
    adopted_players.authme.set_password("Player0003", "changed-in-game")
    adopted_players.authme.register("Dave", "daves-password")
    report = adopted_players.sync()
    assert report.held_back is not None
    assert (report.held_back.removed, report.held_back.locked) == (30, 1)
    assert (report.adopted, report.updated, report.removed, report.locked) == (1, 1, 0, 0)
    assert adopted_players.plugin("player0000") == "synced"
    allowed = adopted_players.sync(allow_mass_changes=True)
    assert (allowed.removed, allowed.locked) == (30, 1)


def test_twenty_removals_are_believed(adopted_players: ServiceHarness) -> None:
    assert remove_rows(adopted_players, 0, 1) == 20
    report = adopted_players.sync()
    assert (report.removed, report.held_back) == (20, None)


def test_a_limit_of_a_share_grows_with_the_server(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    insert_player_rows(authme_table, make_player_rows(100, clock))
    services = make_services(sync__max_changes="20 and 30%")
    services.sync()
    remove_rows(services, 0, 1, 2)
    assert services.sync().removed == 30


def test_a_backup_that_brings_back_the_deleted_is_held_back_too(adopted_players: ServiceHarness) -> None:
    names = [f"player{number:04}" for number in range(25)]
    rows = [
        tuple(adopted_players.row(name)[column] for column in ("username", "realname", "password")) for name in names
    ]
    regdates = [adopted_players.row(name)["regdate"] for name in names]
    for name in names:
        adopted_players.decide("delete", name)
    insert_player_rows(
        adopted_players.table, [(*row, None, regdate, None, None) for row, regdate in zip(rows, regdates, strict=True)]
    )
    report = adopted_players.sync()
    assert report.held_back is not None
    assert (report.held_back.removed, report.removed, report.adopted) == (25, 0, 0)
    assert adopted_players.sync(allow_mass_changes=True).removed == 25


def test_sql_bans_by_the_dozen_are_held_back(adopted_players: ServiceHarness) -> None:
    run_sql(adopted_players, "UPDATE regsvc_user SET status = 'banned' WHERE id <= 30")
    report = adopted_players.sync()
    assert report.held_back is not None
    assert (report.held_back.edited, report.held_back.locked) == (30, 0)
    assert User.select().where(User.applied_status == BANNED).count() == 0
    assert adopted_players.sync(allow_mass_changes=True).locked == 30


def test_approvals_in_sql_are_compared_with_all_users(make_services: MakeServices) -> None:
    """None of them has a row yet, and thirty of a thousand are not many."""
    services = make_services()
    services.register("Alice", password=None)
    ids = {f"user{number}": number + 2 for number in range(1_000)}
    same = {"status": "pending", "applied_status": "pending", "origin": "registered", "created_at": services.clock()}
    insert_whole(User, [{"id": number, "username": name, "username_key": name, **same} for name, number in ids.items()])
    services.app.reconciler.record_registrations(ids)
    run_sql(services, "UPDATE regsvc_user SET status = 'approved' WHERE id <= 30")
    assert services.sync().held_back is None
    assert User.select().where(User.applied_status == APPROVED).count() == 30


# R99
def test_a_locked_row_is_shut_as_planned_while_removals_are_held_back(adopted_players: ServiceHarness) -> None:
    adopted_players.decide("ban", "Player0099")
    adopted_players.sync()
    run_game_sql(adopted_players, "SET hasSession = 1 WHERE username = 'player0099'")
    remove_rows(adopted_players, 0, 1, 2)
    planned = adopted_players.plan(max_names=1)
    told = list(describe_plan(planned, 1))
    done = adopted_players.sync()
    assert told[1:4] == [
        "A run would change:",
        "  1 player is locked: player0099",
        "It would hold back, as more than 20 and 5% at once:",
    ]
    assert told[4].startswith("  30 players whose rows are gone stay away: ")
    assert planned.counts() == done.counts() == {"scanned": 70, "locked": 1}
    assert planned.held_back == done.held_back is not None
    assert adopted_players.row("player0099")["hasSession"] == 0


def test_a_deletion_of_everything_in_sql_is_held_back(adopted_players: ServiceHarness) -> None:
    run_sql(adopted_players, "DELETE FROM regsvc_user")
    report = adopted_players.sync()
    assert report.held_back is not None
    assert (report.held_back.removed, report.removed, report.adopted) == (100, 0, 0)
    assert len(dump_table(adopted_players.table)) == 100
    assert adopted_players.sync(allow_mass_changes=True).removed == 100
    assert dump_table(adopted_players.table) == []
    assert adopted_players.sync().counts() == {}


# --- edits in SQL ---


def test_a_ban_in_sql_is_applied_as_the_api_would(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.login("Alice", PASSWORD)
    run_sql(services, "UPDATE regsvc_user SET status = 'banned', reason = 'griefing\t' WHERE username_key = 'alice'")
    assert services.sync().locked == 1
    user = services.user("Alice")
    assert (user.applied_status, user.banned_from, user.reason, user.reviewed_by) == (
        "banned",
        "approved",
        "griefing",
        "sql",
    )
    assert services.is_locked("alice")
    assert services.sessions("Alice") == 0
    assert services.mails("Alice")[-1] == "banned"
    assert [entry.operator for entry in services.audits("user.banned", "Alice")] == ["sql"]
    assert services.sync().counts() == {"scanned": 1}
    assert len(services.audits("user.banned", "Alice")) == 1
    run_sql(services, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    assert services.sync().restored == 1
    assert services.authme.login("Alice", PASSWORD)


@pytest.mark.parametrize("typed", ["pending", "rejected"])
def test_an_illegal_status_is_put_back_and_told(services: ServiceHarness, typed: str) -> None:
    services.approved("Alice")
    run_sql(services, "UPDATE regsvc_user SET status = ? WHERE username_key = 'alice'", typed)
    assert services.sync().counts() == {"scanned": 1}
    assert services.user("Alice").status == services.user("Alice").applied_status == "approved"
    assert services.details("sync.edit_refused", "Alice") == [{"status": typed, "appliedStatus": "approved"}]
    assert services.authme.login("Alice", PASSWORD)


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_user_deleted_in_sql_is_deleted_everywhere(services: ServiceHarness, is_locked: bool) -> None:
    services.approved("Alice")
    services.login("Alice", PASSWORD)
    if is_locked:
        services.decide("ban", "Alice")
    run_sql(services, "DELETE FROM regsvc_user WHERE username_key = 'alice'")
    assert services.sync().removed == 1
    assert find_player(services.table, "alice") is None
    assert [(entry.operator, entry.target) for entry in services.audits("user.deleted")] == [("sql", "alice")]
    assert services.sync().counts() == {}
    assert len(services.audits("user.deleted")) == 1


@pytest.mark.parametrize("has_row", [True, False])
def test_a_user_renamed_in_sql_is_put_back_and_keeps_the_row(services: ServiceHarness, has_row: bool) -> None:
    services.register("Alice")
    if has_row:
        services.decide("approve", "Alice")
    before = dump_table(services.table)
    run_sql(services, "UPDATE regsvc_user SET username = 'Bob', username_key = 'bob' WHERE username_key = 'alice'")
    services.sync()
    assert services.find_user("Bob") is None
    assert services.user("Alice").username == ("Alice" if has_row else "alice")
    assert dump_table(services.table) == before
    assert [entry.operator for entry in services.audits("sync.edit_refused")] == ["sql"]
    assert services.audits("user.deleted") == []
    run_sql(services, "UPDATE regsvc_user SET username = 'Robert'")
    services.sync()
    assert services.user("Alice").username == ("Alice" if has_row else "alice")


def test_a_rename_is_put_back_before_an_admin_meets_it(services: ServiceHarness) -> None:
    services.approved("Alice")
    run_sql(services, "UPDATE regsvc_user SET username = 'Bob', username_key = 'bob' WHERE username_key = 'alice'")
    with pytest.raises(errors.UserNotFound):
        services.decide("ban", "Bob")
    assert services.decide("ban", "Alice").username == "Alice"
    assert services.is_locked("alice")


# --- the host's choices ---


def test_unapproved_players_are_only_reported_where_the_host_wants_that(make_services: MakeServices) -> None:
    services = make_services(sync__unapproved_players="report")
    services.register("Alice")
    services.authme.register("Alice", "foreign-password")
    services.authme.register("Dave", "daves-password")
    before = dump_table(services.table)
    report = services.sync()
    assert (report.adopted, report.locked) == (1, 0)
    assert {conflict.username for conflict in report.conflicts} == {"alice", "dave"}
    assert services.plugin("Alice") == services.plugin("Dave") == "conflict"
    assert services.sync().conflicts == []
    assert dump_table(services.table) == before


def test_who_is_removed_is_put_back_where_the_host_wants_that(make_services: MakeServices) -> None:
    services = make_services(sync__on_player_removed="restore")
    services.approved("Bob")
    services.approved("Alice")
    services.authme.register("Carol", "carols-password")
    services.sync()
    services.decide("approve", "Carol")
    for name in ("Alice", "Carol"):
        services.authme.unregister_from_console(name)
    report = services.sync()
    assert (report.removed, report.provisioned) == (2, 2)
    assert services.authme.login("Alice", PASSWORD)
    assert services.authme.login("Carol", "carols-password")
    assert services.sync().counts() == {"scanned": 3}


@pytest.mark.parametrize(("winner", "password"), [("plugin", "changed-in-game"), ("companion", "newer-password")])
@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_when_both_sides_changed_the_host_says_who_wins(
    make_services: MakeServices, winner: str, password: str
) -> None:
    services = make_services(sync__conflict=winner)
    services.approved("Alice")
    stored = services.app.hashing.hash("newer-password", "Alice")
    User.update(password_hash=stored.hash).where(User.username_key == "alice").execute()
    services.authme.set_password("Alice", "changed-in-game")
    report = services.sync()
    assert to_builtins(report.conflicts) == [{"username": "alice", "field": "password", "kept": winner}]
    assert services.details("sync.conflict", "Alice") == [{"field": "password", "kept": winner}]
    assert services.authme.login("Alice", password)
    assert services.sync().conflicts == []


# --- registered before there was an AuthMe ---


def test_a_player_who_was_first_keeps_the_name(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    place = authme_table.database
    url = place.database.url if isinstance(place, MariaDBSchema) else "auto"
    services = make_services(authme__enabled=False, database__url=url)
    services.authme.register("Alice", "alices-password")
    services.clock.advance(seconds=1)
    services.register("Alice", email="somebody.else@example.org")
    services.register("Bob")
    services.clock.advance(seconds=1)
    services.authme.register("Bob", "bobs-password")
    before = dump_table(services.table)
    assert services.sync().is_enabled is False
    assert dump_table(services.table) == before
    assert services.player("Alice").presence == "unasked"
    services.restart(authme__enabled=True)
    assert services.sync().locked == 1
    rejected = services.user("Alice")
    assert (rejected.status, rejected.reason) == ("rejected", "name_taken_in_game")
    assert services.authme.login("Alice", "alices-password")
    assert services.is_locked("bob")
    assert services.plugin("Alice") == services.plugin("Bob") == "conflict"


# --- reports ---


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_authme_being_away_is_an_error_in_the_report_and_one_warning(
    services: ServiceHarness, caplog: pytest.LogCaptureFixture
) -> None:
    services.approved("Alice")
    caplog.set_level(logging.INFO, "regsvc.sync.run")
    caplog.clear()
    with Away(services.table):
        for _again in range(3):
            report = services.sync()
            assert [error.username for error in report.errors] == [None]
            assert "is busy" in report.errors[0].error
    services.sync()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_run_with_effects_leaves_an_entry_and_one_without_does_not(services: ServiceHarness) -> None:
    services.authme.register("Bob", "bobs-password")
    services.sync()
    services.sync()
    assert services.details("sync.run") == [{"scanned": 1, "adopted": 1, "locked": 1}]


def test_a_plan_changes_nothing(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.approved("Carol")
    services.authme.set_password("Alice", "changed-in-game")
    services.authme.unregister_from_console("Carol")
    services.authme.register("Dave", "daves-password")
    services.register("Eve")
    run_sql(services, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'eve'")
    rows = dump_table(services.table)
    players = list(SyncRecord.select().order_by(SyncRecord.username_key).dicts())
    users = list(User.select().order_by(User.id).dicts())
    report = services.plan()
    assert (report.adopted, report.updated, report.removed, report.locked) == (1, 1, 1, 1)
    assert dump_table(services.table) == rows
    assert list(SyncRecord.select().order_by(SyncRecord.username_key).dicts()) == players
    assert list(User.select().order_by(User.id).dicts()) == users
    assert services.audits("sync.run") == []
    done = services.sync()
    assert (done.adopted, done.updated, done.removed, done.locked) == (1, 1, 1, 1)


# --- one run at a time ---


async def test_calls_that_come_during_a_run_share_the_next_one(services: ServiceHarness) -> None:
    reports = await asyncio.gather(*(services.app.sync.run() for _caller in range(5)))
    assert len(set(map(id, reports))) == 1


# --- a run beside requests ---


@pytest.mark.parametrize(
    ("answer", "page", "rests"),
    [
        (0.0001, 0.4, []),
        (0.01, 0.4, [0.3] * 4),  # after two pages in the first second
        (0.01, 0.8, [0.5] * 5),  # which is the longest, after the first page
    ],
)
def test_a_long_run_rests_while_requests_wait(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, answer: float, page: float, rests: list[float]
) -> None:
    """Six pages, while the event loop takes so many seconds to answer."""
    passed, rested = 0.0, list[float]()

    def pass_time(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    def rest(seconds: float) -> None:
        rested.append(seconds)
        pass_time(seconds)

    def run_pages(may_go_on: Callable[[], bool], **_options: object) -> SyncReport:
        for _page in range(6):
            pass_time(page)
            assert may_go_on()
        return SyncReport(started_at=clock())

    def answer_soon(callback: Callable[[], None]) -> None:
        pass_time(answer)
        callback()

    monkeypatch.setattr("regsvc.sync.service.time", SimpleNamespace(monotonic=lambda: passed, sleep=rest))
    lease: Any = SimpleNamespace(renew=lambda: True, release=lambda is_done: None)
    worker: Any = None
    runner: Any = SimpleNamespace(run=run_pages)
    loop: Any = SimpleNamespace(call_soon_threadsafe=answer_soon)
    service = SyncService(worker, runner, lease)
    service._loop = loop
    service.run_here()
    assert rested == pytest.approx(rests, rel=0.05)
