"""Whole runs: the brakes, what was typed in SQL, what a run tells, and who may run."""

import asyncio
import logging
from datetime import timedelta

import pytest

from regsvc.core import errors
from regsvc.database.models import APPROVED, BANNED, Player, User
from tests.support.authme_database import MariaDBSchema
from tests.support.authme_tables import AuthMeTable, create_table, dump_table, find_player
from tests.support.crowd import crowd, insert_crowd
from tests.support.manual_clock import StandingClock
from tests.support.services import PASSWORD, Away, House, MakeHouse

MANY = 600
"""More than a page."""


@pytest.fixture
def town(make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock) -> House:
    """A hundred adopted players."""
    insert_crowd(authme_table, crowd(100, clock))
    house = make_house()
    house.sync()
    return house


def type_sql(house: House, statement: str, *values: object) -> None:
    house.ours.execute(statement, values)


def remove_rows(house: House, *digits: int) -> int:
    """Of the hundred, those whose number ends so; how many."""
    return sum(
        house.table.database.execute(f"DELETE FROM {house.table.name} WHERE username LIKE ?", (f"player%{digit}",))
        for digit in digits
    )


# --- the brakes ---


def test_a_crowd_adopted_as_pending_is_not_locked_before_somebody_says_so(
    make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock
) -> None:
    insert_crowd(authme_table, crowd(MANY, clock))
    before = dump_table(authme_table)
    house = make_house(sync__existing_players="pending")
    for adopted in (MANY, 0):
        report = house.sync()
        assert (report.adopted, report.locked) == (adopted, 0)
        assert report.braked is not None
        assert (report.braked.locked, report.braked.removed, report.braked.limit) == (MANY, 0, "20 and 5%")
    assert dump_table(authme_table) == before
    assert len(house.audits("sync.braked")) == 1
    assert house.plan().braked == report.braked

    allowed = house.sync(allow_mass_changes=True)
    assert (allowed.locked, allowed.braked) == (MANY, None)
    assert all(row["password"] != was["password"] for row, was in zip(dump_table(authme_table), before, strict=True))
    assert house.sync().counts() == {"scanned": MANY}


@pytest.mark.parametrize("how", ["DELETE FROM", "DROP TABLE"])
# R54
def test_a_table_that_is_suddenly_empty_is_not_believed(town: House, how: str) -> None:
    town.table.database.execute(f"{how} {town.table.name}")
    if how == "DROP TABLE":
        assert [error["username"] for error in town.sync().errors] == [None]
        create_table(town.table)
    report = town.sync()
    assert (report.removed, report.scanned) == (0, 0)
    assert report.braked is not None
    assert report.braked.removed == 100
    assert Player.select().where(Player.presence == "present").count() == 100
    assert town.sync(allow_mass_changes=True).removed == 100
    assert Player.select().where(Player.presence == "gone").count() == 100


def test_even_one_player_is_not_believed_gone_from_an_empty_table(house: House) -> None:
    house.approved("Alice")
    house.authme.unregister_from_console("Alice")
    assert house.sync().braked is not None
    assert house.sync(allow_mass_changes=True).removed == 1


def test_more_removals_than_the_limit_are_left_and_only_they(town: House) -> None:
    assert remove_rows(town, 0, 1, 2) == 30
    town.authme.set_password("Player0003", "changed-in-game")
    town.authme.register("Dave", "daves-password")
    report = town.sync()
    assert report.braked is not None
    assert (report.braked.removed, report.braked.locked) == (30, 1)
    assert (report.adopted, report.updated, report.removed, report.locked) == (1, 1, 0, 0)
    assert town.plugin("player0000") == "synced"
    allowed = town.sync(allow_mass_changes=True)
    assert (allowed.removed, allowed.locked) == (30, 1)


def test_twenty_removals_are_believed(town: House) -> None:
    assert remove_rows(town, 0, 1) == 20
    report = town.sync()
    assert (report.removed, report.braked) == (20, None)


def test_a_limit_of_a_share_grows_with_the_server(
    make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock
) -> None:
    insert_crowd(authme_table, crowd(100, clock))
    house = make_house(sync__max_changes="20 and 30%")
    house.sync()
    remove_rows(house, 0, 1, 2)
    assert house.sync().removed == 30


def test_a_backup_that_brings_back_the_deleted_is_braked_too(town: House) -> None:
    names = [f"player{number:04}" for number in range(25)]
    rows = [tuple(town.row(name)[column] for column in ("username", "realname", "password")) for name in names]
    regdates = [town.row(name)["regdate"] for name in names]
    for name in names:
        town.decide("delete", name)
    insert_crowd(town.table, [(*row, None, regdate, None, None) for row, regdate in zip(rows, regdates, strict=True)])
    report = town.sync()
    assert report.braked is not None
    assert (report.braked.removed, report.removed, report.adopted) == (25, 0, 0)
    assert town.sync(allow_mass_changes=True).removed == 25


def test_typed_bans_by_the_dozen_are_braked(town: House) -> None:
    type_sql(town, "UPDATE regsvc_user SET status = 'banned' WHERE id <= 30")
    report = town.sync()
    assert report.braked is not None
    assert (report.braked.edited, report.braked.locked) == (30, 0)
    assert User.select().where(User.applied_status == BANNED).count() == 0
    assert town.sync(allow_mass_changes=True).locked == 30


def test_typed_approvals_are_measured_by_all_who_wait(make_house: MakeHouse) -> None:
    """Nobody of them has a row yet, and thirty of a thousand are not many."""
    house = make_house()
    house.register("Alice", password=None)
    for number in range(1_000):
        name = f"user{number}"
        User.insert(
            username=name,
            username_key=name,
            status="pending",
            applied_status="pending",
            origin="registered",
            created_at=house.clock(),
        ).execute()
        house.app.reconciler.note_registration(name, number + 2)
    type_sql(house, "UPDATE regsvc_user SET status = 'approved' WHERE id <= 30")
    assert house.sync().braked is None
    assert User.select().where(User.applied_status == APPROVED).count() == 30


def test_a_deletion_of_everything_in_sql_is_braked(town: House) -> None:
    type_sql(town, "DELETE FROM regsvc_user")
    report = town.sync()
    assert report.braked is not None
    assert (report.braked.removed, report.removed, report.adopted) == (100, 0, 0)
    assert len(dump_table(town.table)) == 100
    assert town.sync(allow_mass_changes=True).removed == 100
    assert dump_table(town.table) == []
    assert town.sync().counts() == {}


# --- what operators type ---


def test_a_typed_ban_is_carried_out_as_the_api_would(house: House) -> None:
    house.approved("Alice")
    house.login("Alice", PASSWORD)
    type_sql(house, "UPDATE regsvc_user SET status = 'banned', reason = 'griefing' WHERE username_key = 'alice'")
    assert house.sync().locked == 1
    user = house.user("Alice")
    assert (user.applied_status, user.banned_from, user.reason, user.reviewed_by) == (
        "banned",
        "approved",
        "griefing",
        "sql",
    )
    assert house.is_locked("alice")
    assert house.sessions("Alice") == 0
    assert house.mails("Alice")[-1] == "banned"
    assert [entry.operator for entry in house.audits("user.banned", "Alice")] == ["sql"]
    assert house.sync().counts() == {"scanned": 1}
    assert len(house.audits("user.banned", "Alice")) == 1
    type_sql(house, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    assert house.sync().restored == 1
    assert house.authme.login("Alice", PASSWORD)


def test_a_typed_ban_ends_when_it_says(house: House) -> None:
    house.approved("Alice")
    until = (house.clock() + timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S.000")
    type_sql(house, "UPDATE regsvc_user SET status = 'banned', ban_expires_at = ? WHERE id = 1", until)
    house.sync()
    house.clock.advance(hours=2)
    house.sync()
    assert house.user("Alice").status == "approved"
    assert house.authme.login("Alice", PASSWORD)


def test_a_typed_approval_provisions_and_mails(house: House) -> None:
    house.register("Alice")
    type_sql(house, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    assert house.sync().provisioned == 1
    assert house.authme.login("Alice", PASSWORD)
    assert house.mails("Alice") == ["approved"]
    assert [entry.operator for entry in house.audits("user.approved", "Alice")] == ["sql"]


def test_a_typed_approval_opens_a_strangers_row(house: House) -> None:
    house.register("Alice")
    house.authme.register("Alice", "strangers-password")
    house.sync()
    type_sql(house, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    assert house.sync().restored == 1
    assert house.authme.login("Alice", PASSWORD)


@pytest.mark.parametrize("typed", ["pending", "rejected"])
def test_an_illegal_status_is_put_back_and_told(house: House, typed: str) -> None:
    house.approved("Alice")
    type_sql(house, "UPDATE regsvc_user SET status = ? WHERE username_key = 'alice'", typed)
    assert house.sync().counts() == {"scanned": 1}
    assert house.user("Alice").status == house.user("Alice").applied_status == "approved"
    assert house.details("sync.edit_refused", "Alice") == [{"status": typed, "appliedStatus": "approved"}]
    assert house.authme.login("Alice", PASSWORD)


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_user_deleted_in_sql_is_deleted_everywhere(house: House, is_locked: bool) -> None:
    house.approved("Alice")
    house.login("Alice", PASSWORD)
    if is_locked:
        house.decide("ban", "Alice")
    type_sql(house, "DELETE FROM regsvc_user WHERE username_key = 'alice'")
    assert house.sync().removed == 1
    assert find_player(house.table, "alice") is None
    assert [(entry.operator, entry.target) for entry in house.audits("user.deleted")] == [("sql", "alice")]
    assert house.sync().counts() == {}
    assert len(house.audits("user.deleted")) == 1


@pytest.mark.parametrize("has_row", [True, False])
def test_a_user_renamed_in_sql_is_put_back_and_keeps_the_row(house: House, has_row: bool) -> None:
    house.register("Alice")
    if has_row:
        house.decide("approve", "Alice")
    before = dump_table(house.table)
    type_sql(house, "UPDATE regsvc_user SET username = 'Bob', username_key = 'bob' WHERE username_key = 'alice'")
    house.sync()
    assert house.find_user("Bob") is None
    assert house.user("Alice").username == ("Alice" if has_row else "alice")
    assert dump_table(house.table) == before
    assert [entry.operator for entry in house.audits("sync.edit_refused")] == ["sql"]
    assert house.audits("user.deleted") == []
    type_sql(house, "UPDATE regsvc_user SET username = 'Robert'")
    house.sync()
    assert house.user("Alice").username == ("Alice" if has_row else "alice")


def test_a_rename_is_put_back_before_an_admin_meets_it(house: House) -> None:
    house.approved("Alice")
    type_sql(house, "UPDATE regsvc_user SET username = 'Bob', username_key = 'bob' WHERE username_key = 'alice'")
    with pytest.raises(errors.UserNotFound):
        house.decide("ban", "Bob")
    assert house.decide("ban", "Alice").username == "Alice"
    assert house.is_locked("alice")


# --- what the host wants ---


def test_unapproved_players_are_only_reported_where_the_host_wants_that(make_house: MakeHouse) -> None:
    house = make_house(sync__unapproved_players="report")
    house.register("Alice")
    house.authme.register("Alice", "strangers-password")
    house.authme.register("Dave", "daves-password")
    before = dump_table(house.table)
    report = house.sync()
    assert (report.adopted, report.locked) == (1, 0)
    assert {conflict["username"] for conflict in report.conflicts} == {"alice", "dave"}
    assert house.plugin("Alice") == house.plugin("Dave") == "conflict"
    assert house.sync().conflicts == []
    assert dump_table(house.table) == before


def test_who_is_removed_is_put_back_where_the_host_wants_that(make_house: MakeHouse) -> None:
    house = make_house(sync__on_player_removed="restore")
    house.approved("Bob")
    house.approved("Alice")
    house.authme.register("Carol", "carols-password")
    house.sync()
    house.decide("approve", "Carol")
    for name in ("Alice", "Carol"):
        house.authme.unregister_from_console(name)
    report = house.sync()
    assert (report.removed, report.provisioned) == (2, 2)
    assert house.authme.login("Alice", PASSWORD)
    assert house.authme.login("Carol", "carols-password")
    assert house.sync().counts() == {"scanned": 3}


@pytest.mark.parametrize(("winner", "password"), [("plugin", "changed-in-game"), ("companion", "newer-password")])
@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_when_both_sides_changed_the_host_says_who_wins(make_house: MakeHouse, winner: str, password: str) -> None:
    house = make_house(sync__conflict=winner)
    house.approved("Alice")
    stored = house.app.password_parts.passwords.hash("newer-password", "Alice")
    User.update(password_hash=stored.hash).where(User.username_key == "alice").execute()
    house.authme.set_password("Alice", "changed-in-game")
    report = house.sync()
    assert report.conflicts == [{"username": "alice", "field": "password", "kept": winner}]
    assert house.details("sync.conflict", "Alice") == [{"field": "password", "kept": winner}]
    assert house.authme.login("Alice", password)
    assert house.sync().conflicts == []


# --- registered before there was an AuthMe ---


def test_a_player_who_was_first_keeps_the_name(make_house: MakeHouse, authme_table: AuthMeTable) -> None:
    place = authme_table.database
    url = place.database.url if isinstance(place, MariaDBSchema) else "auto"
    house = make_house(authme__enabled=False, database__url=url)
    house.authme.register("Alice", "alices-password")
    house.clock.advance(seconds=1)
    house.register("Alice", email="somebody.else@example.org")
    house.register("Bob")
    house.clock.advance(seconds=1)
    house.authme.register("Bob", "bobs-password")
    before = dump_table(house.table)
    assert house.sync().is_enabled is False
    assert dump_table(house.table) == before
    assert house.player("Alice").presence == "unasked"
    house.restart(authme__enabled=True)
    assert house.sync().locked == 1
    rejected = house.user("Alice")
    assert (rejected.status, rejected.reason) == ("rejected", "name_taken_in_game")
    assert house.authme.login("Alice", "alices-password")
    assert house.is_locked("bob")
    assert house.plugin("Alice") == house.plugin("Bob") == "conflict"


# --- telling ---


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_authme_being_away_is_an_error_in_the_report_and_one_warning(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.approved("Alice")
    caplog.set_level(logging.INFO, "regsvc.sync.run")
    caplog.clear()
    with Away(house.table):
        for _again in range(3):
            report = house.sync()
            assert [error["username"] for error in report.errors] == [None]
            assert "is busy" in report.errors[0]["error"]
    house.sync()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_run_with_effects_leaves_an_entry_and_one_without_does_not(house: House) -> None:
    house.authme.register("Bob", "bobs-password")
    house.sync()
    house.sync()
    assert house.details("sync.run") == [{"scanned": 1, "adopted": 1, "locked": 1}]


def test_a_plan_changes_nothing(house: House) -> None:
    house.approved("Alice")
    house.approved("Carol")
    house.authme.set_password("Alice", "changed-in-game")
    house.authme.unregister_from_console("Carol")
    house.authme.register("Dave", "daves-password")
    house.register("Eve")
    type_sql(house, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'eve'")
    rows = dump_table(house.table)
    players = list(Player.select().order_by(Player.username_key).dicts())
    users = list(User.select().order_by(User.id).dicts())
    report = house.plan()
    assert (report.adopted, report.updated, report.removed, report.locked) == (1, 1, 1, 1)
    assert dump_table(house.table) == rows
    assert list(Player.select().order_by(Player.username_key).dicts()) == players
    assert list(User.select().order_by(User.id).dicts()) == users
    assert house.audits("sync.run") == []
    done = house.sync()
    assert (done.adopted, done.updated, done.removed, done.locked) == (1, 1, 1, 1)


# --- one run at a time ---


def test_calls_that_come_during_a_run_share_the_next_one(house: House) -> None:
    async def ask() -> list[int]:
        asked = [asyncio.create_task(house.app.sync.run()) for number in range(5)]
        return [id(report) for report in await asyncio.gather(*asked)]

    assert len(set(asyncio.run(ask()))) == 1
