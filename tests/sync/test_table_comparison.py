"""A run looks only at names that may need something, and misses none of them."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from plugin_bridge.authme import table_checksums as sqlite_checksums
from plugin_bridge.authme.table_checksums import SharedTable
from regsvc.database.models import SyncRecord, SyncState, User
from regsvc.sync import candidates
from regsvc.sync.candidates import Candidates
from regsvc.sync.reconciler import Reconciler
from tests.support.adopted_players import MANY, reconcile, synced_players, watched
from tests.support.authme.authme_tables import AuthMeTable, TableShape, insert_player
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile
from tests.support.services import PASSWORD, MakeServices, ServiceHarness

pytestmark = pytest.mark.every_database

REGISTERED_LONG_AGO = 1_500_000_000_000


@pytest.fixture
def adopted_players(make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock) -> ServiceHarness:
    """Three hundred adopted players, and a run that had nothing to do."""
    return synced_players(make_services, authme_table, clock)


def change(services: ServiceHarness, username: str, column: str, value: object) -> None:
    """Change a column past AuthMe's own functions, byte for byte."""
    sql = f"UPDATE {services.table.name} SET {column} = ? WHERE username = ?"
    assert services.table.database.execute(sql, (value, username)) == 1


# --- nothing to do ---


def test_who_only_plays_is_not_looked_at(adopted_players: ServiceHarness) -> None:
    for column in ("lastlogin", "x", "isLogged", "hasSession"):
        change(adopted_players, "player0001", column, 1)
    change(adopted_players, "player0001", "ip", "203.0.113.9")
    with watched(adopted_players) as names:
        assert adopted_players.sync().counts() == {"scanned": MANY}
    assert names == set()


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_file_that_nobody_wrote_into_is_not_read(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    players = adopted_players.app.context.location.players
    with monkeypatch.context() as patched:
        patched.setattr(players, "scan", None)
        assert adopted_players.sync().scanned == MANY
    change(adopted_players, "player0001", "email", "new@example.org")
    assert adopted_players.sync().updated == 1
    adopted_players.restart()
    assert adopted_players.sync().counts() == {"scanned": MANY}


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_who_could_not_be_adopted_is_adopted_although_nobody_wrote_into_the_file(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.sync()
    services.authme.register("Dave", "daves-password")
    with monkeypatch.context() as patched:
        patched.setattr("regsvc.sync.bulk_actions.adopt_each", failing)
        assert [error.username for error in services.sync().errors] == ["dave"]
    assert services.sync().adopted == 1


def failing(*_given: object) -> None:
    raise ValueError


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_of_a_file_only_pages_that_changed_are_taken_apart(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_checksums, "_PAGE", 10)
    adopted_players.restart()
    reconcile(adopted_players)
    hashed = list[str]()

    def hashing(name: str) -> int:
        hashed.append(name)
        return hash(name)

    monkeypatch.setattr(sqlite_checksums, "name_hash", hashing)
    for moment in (1, 2):
        change(adopted_players, "player0001", "lastlogin", moment)
        assert adopted_players.sync().counts() == {"scanned": MANY}
    assert hashed == []
    change(adopted_players, "player0001", "email", "new@example.org")
    with watched(adopted_players) as names:
        assert adopted_players.sync().updated == 1
    assert names == {"player0001"}
    assert 0 < len(set(hashed)) <= 10


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_rows_that_come_go_and_move_are_told_from_those_that_stay(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_checksums, "_PAGE", 7)
    adopted_players.restart()
    reconcile(adopted_players)
    table = adopted_players.table
    change(adopted_players, "player0111", "rowid", 1_000_000)
    change(adopted_players, "player0222", "rowid", -5)
    with watched(adopted_players) as names:
        assert adopted_players.sync().counts() == {"scanned": MANY}
    assert names == set()
    adopted_players.authme.unregister_from_console("Player0001")
    table.database.execute(f"UPDATE {table.name} SET rowid = 2 WHERE username = 'player0150'")
    insert_player(table, username="dave", realname="Dave", password="x", regdate=REGISTERED_LONG_AGO)
    with watched(adopted_players) as names:
        report = adopted_players.sync()
    assert (report.removed, report.adopted, report.updated) == (1, 1, 0)
    assert names == {"dave"}, "the other one has no row to look at"
    adopted_players.sync()
    table.database.execute("VACUUM")
    with watched(adopted_players) as names:
        assert not adopted_players.sync().has_effects
    assert names == set()


# --- changes in the game ---


def test_of_many_players_only_those_who_changed_are_looked_at(adopted_players: ServiceHarness) -> None:
    adopted_players.authme.set_password("Player0007", "changed-in-game")
    adopted_players.authme.unregister_from_console("Player0017")
    adopted_players.authme.register("Dave", "daves-password")
    with watched(adopted_players) as names:
        report = adopted_players.sync()
    assert (report.updated, report.removed, report.adopted) == (1, 1, 1)
    assert "player0007" in names
    assert len(names) < MANY // 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_lost_rows_are_not_searched_while_every_row_is_accounted_for(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    lost_rows = Candidates.lost_rows

    def asking(candidates: Candidates, table: SharedTable) -> Iterator[list[str]]:
        nonlocal asked
        asked += 1
        return lost_rows(candidates, table)

    monkeypatch.setattr(Candidates, "lost_rows", asking)
    adopted_players.authme.set_password("Player0007", "changed-in-game")
    assert adopted_players.sync().updated == 1
    insert_player(
        adopted_players.table, username="newcomer", realname="Newcomer", password="x", regdate=REGISTERED_LONG_AGO
    )
    assert adopted_players.sync().adopted == 1
    assert asked == 0
    adopted_players.authme.unregister_from_console("Player0017")
    assert adopted_players.sync().removed == 1
    assert asked == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_the_whole_table_is_not_summed_right_after_a_run_with_changes(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed, comparison = list[str](), SharedTable.comparison

    def comparing(table: SharedTable, stored: str, counted: str) -> str:
        summed.append(stored)
        return comparison(table, stored, counted)

    monkeypatch.setattr(SharedTable, "comparison", comparing)
    for number, sums in ((1, 1), (2, 0), (3, 0)):
        change(adopted_players, f"player000{number}", "email", "new@example.org")
        report, found = adopted_players.sync(), len(summed)
        assert (report.updated, report.scanned, found) == (1, MANY, sums)
        summed.clear()
    for sums in (0, 1, 1):
        assert adopted_players.sync().counts() == {"scanned": MANY}
        assert len(summed) == sums
        summed.clear()
    change(adopted_players, "player0001", "email", "newer@example.org")
    assert adopted_players.sync().updated == 1
    adopted_players.table.database.execute(f"DELETE FROM {adopted_players.table.name}")
    summed.clear()
    emptied = adopted_players.sync()
    assert (emptied.scanned, summed) == (0, [])
    assert emptied.held_back is not None
    assert emptied.held_back.removed == MANY


def test_a_row_lost_while_another_comes_into_its_bucket_is_found(adopted_players: ServiceHarness) -> None:
    newcomer = "newcomer"
    adopted_players.authme.unregister_from_console("Player0007")
    insert_player(
        adopted_players.table, username=newcomer, realname=newcomer, password="x", regdate=REGISTERED_LONG_AGO
    )
    report = adopted_players.sync()
    assert (report.removed, report.adopted, report.scanned) == (1, 1, MANY)
    assert adopted_players.plugin("player0007") == "absent"

    adopted_players.authme.unregister_from_console(newcomer)
    insert_player(
        adopted_players.table, username="player0007", realname="Player0007", password="x", regdate=REGISTERED_LONG_AGO
    )
    adopted_players.sync()
    assert (adopted_players.plugin(newcomer), adopted_players.plugin("player0007")) == ("absent", "returned")


@pytest.mark.parametrize("column", ["password", "email", "realname"])
def test_two_rows_that_swap_a_value_are_both_seen(adopted_players: ServiceHarness, column: str) -> None:
    one, other = adopted_players.row("player0001"), adopted_players.row("player0002")
    for name, value in (("player0001", other[column]), ("player0002", one[column])):
        change(adopted_players, name, column, value)
    with watched(adopted_players) as names:
        adopted_players.sync()
    assert {"player0001", "player0002"} <= names


def test_the_same_edit_of_two_rows_does_not_cancel_out(adopted_players: ServiceHarness) -> None:
    for name in ("player0001", "player0002"):
        change(adopted_players, name, "password", "$SHA$same$same")
    assert adopted_players.sync().updated == 2


def test_nothing_and_an_empty_text_are_two_values(adopted_players: ServiceHarness) -> None:
    change(adopted_players, "player0007", "email", "")
    with watched(adopted_players) as names:
        adopted_players.sync()
    assert "player0007" in names


@pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)
def test_every_shape_of_table_has_a_digest(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    for name in ("émile", "bob"):
        insert_player(authme_table, username=name, realname=name, password="x", regdate=REGISTERED_LONG_AGO)
    services = make_services()
    reconcile(services)
    change(services, "émile", "password", "y")
    with watched(services) as names:
        assert services.sync().updated == 1
    assert names == {"émile"}
    services.table.database.execute(f"DELETE FROM {services.table.name} WHERE username = ?", ("émile",))
    assert services.sync().removed == 1


def test_a_column_that_authme_adds_is_no_alarm(adopted_players: ServiceHarness) -> None:
    adopted_players.table.database.execute(
        f"ALTER TABLE {adopted_players.table.name} ADD COLUMN salt VARCHAR(255) NULL"
    )
    assert adopted_players.sync().counts() == {"scanned": MANY}


# --- unfinished work ---


def test_what_a_run_could_not_finish_the_next_one_takes_up(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(adopted_players, "player0001", "realname", "PLAYER0001")
    with monkeypatch.context() as patched:
        patched.setattr(adopted_players.app.reconciler, "reconcile_many", lambda *given, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            adopted_players.sync()
    assert adopted_players.sync().updated == 1


def test_what_is_held_back_is_found_again_and_the_rest_is_not_looked_at_twice(
    adopted_players: ServiceHarness,
) -> None:
    adopted_players.table.database.execute(
        f"DELETE FROM {adopted_players.table.name} WHERE username < ?", ("player0030",)
    )
    adopted_players.authme.set_password("Player0200", "changed-in-game")
    assert adopted_players.sync().updated == 1
    adopted_players.sync()
    for _again in range(2):
        with watched(adopted_players) as names:
            braked = adopted_players.sync().held_back
        assert braked is not None
        assert braked.removed == 30
        assert "player0200" not in names
    assert adopted_players.sync(allow_mass_changes=True).removed == 30


# --- changes on our side ---


def test_a_row_of_ours_that_changes_is_looked_at(adopted_players: ServiceHarness) -> None:
    new = "is_email_verified = 1, email = 'new@example.org', email_key = 'new@example.org'"
    adopted_players.ours.execute(f"UPDATE regsvc_user SET {new} WHERE username_key = 'player0001'", ())
    with watched(adopted_players) as names:
        assert adopted_players.sync().updated == 1
    assert names == {"player0001"}
    assert adopted_players.row("player0001")["email"] == "new@example.org"


def test_marks_go_away_once_their_rows_have_been_looked_at(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.register("Dave", "daves-password")
    reconcile(services)
    for table in (User, SyncRecord):
        assert table.select().where(table.changed_at.is_null(False)).count() == 0
    services.login("Alice", PASSWORD)
    assert User.select().where(User.changed_at.is_null(False)).count() == 1


def test_a_row_that_is_written_back_after_the_run_is_looked_at_again(adopted_players: ServiceHarness) -> None:
    """AuthMe has the old password in memory; the row is as it was when the run began, and so are the checksums."""
    adopted_players.restart(sync__conflict="companion")
    reconcile(adopted_players)
    was = "$SHA$x$changed-in-game"
    change(adopted_players, "player0001", "password", was)
    new = "password_hash = '$SHA$y$new', password_algorithm = 'SHA256'"
    adopted_players.ours.execute(f"UPDATE regsvc_user SET {new} WHERE username_key = 'player0001'", ())
    assert adopted_players.sync().updated == 1
    assert adopted_players.row("player0001")["password"] == "$SHA$y$new"
    change(adopted_players, "player0001", "password", was)
    assert adopted_players.sync().updated == 1


def test_a_row_that_changes_while_the_run_looks_at_it_keeps_its_mark(adopted_players: ServiceHarness) -> None:
    def edit(reason: str) -> None:
        adopted_players.ours.execute(f"UPDATE regsvc_user SET {reason} WHERE username_key = 'player0001'", ())

    edit("reason = 'a note'")
    with meanwhile(Reconciler, "reconcile_many", lambda: edit("status = 'banned'"), after=True):
        assert adopted_players.sync().locked == 0
    assert adopted_players.sync().locked == 1


def test_a_deletion_in_sql_during_a_registration_is_found(adopted_players: ServiceHarness) -> None:
    adopted_players.register("Alice")
    adopted_players.ours.execute("DELETE FROM regsvc_user WHERE username_key IN ('player0001', 'alice')", ())
    report = adopted_players.sync()
    assert report.removed == 1
    assert {entry.target for entry in adopted_players.audits("user.deleted")} == {"player0001", "alice"}


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_deletion_in_sql_is_found_although_a_run_checks_few_users(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_IDS_PER_RUN", 100)
    adopted_players.ours.execute("DELETE FROM regsvc_user WHERE id = 250", ())
    assert [adopted_players.sync().removed for _run in range(3)] == [0, 0, 1]
    adopted_players.ours.execute("DELETE FROM regsvc_user WHERE id IN (20, 270)", ())
    adopted_players.restart()
    assert adopted_players.sync().removed == 2, "the first run of a process checks all"
    adopted_players.ours.execute("DELETE FROM regsvc_user WHERE id BETWEEN 90 AND 130", ())
    for _run in range(4):
        report = adopted_players.sync()
    assert report.held_back is not None
    assert report.held_back.removed == 41, "the guard knows of all, those in other parts included"


def test_a_user_inserted_in_sql_is_found(adopted_players: ServiceHarness) -> None:
    adopted_players.ours.execute(
        "INSERT INTO regsvc_user (username, username_key, status, applied_status, origin, created_at)"
        " VALUES ('Zoe', 'zoe', 'approved', 'approved', 'created', '2031-05-04 12:00:00.000')",
        (),
    )
    adopted_players.sync()
    assert adopted_players.plugin("zoe") == "absent"


# --- other inputs ---


def test_who_is_no_operator_any_more_is_locked_like_anybody(services: ServiceHarness) -> None:
    services.register("Dave")
    services.game.write_operators("Olivia", "Dave")
    services.restart()
    services.authme.register("Dave", "foreign-password")
    reconcile(services)
    assert not services.is_locked("dave")
    services.game.write_operators("Olivia")
    services.restart()
    assert services.sync().locked == 1


def test_another_config_looks_at_everybody(make_services: MakeServices) -> None:
    services = make_services(sync__unapproved_players="report")
    services.authme.register("Dave", "daves-password")
    reconcile(services)
    assert not services.is_locked("dave")
    services.restart(sync__unapproved_players="lock")
    assert services.sync().locked == 1


def test_once_a_day_and_on_demand_every_row_is_compared(services: ServiceHarness) -> None:
    services.authme.register("Dave", "daves-password")
    reconcile(services)
    SyncRecord.update(base_email="unseen", changed_at=None).where(SyncRecord.username_key == "dave").execute()
    SyncRecord.update(changed_at=None).execute()
    with watched(services) as names:
        services.sync()
        assert names == set()
        services.app.sync.run_alone(allow_mass_changes=False, is_full=True)
        assert names == {"dave"}
    before = SyncState.get_by_id(1).compared_at
    services.clock.advance(hours=25)
    with watched(services) as names:
        services.sync()
    assert names == {"dave"}
    assert SyncState.get_by_id(1).compared_at >= before + timedelta(days=1)


def test_a_plan_leaves_the_digest_alone(adopted_players: ServiceHarness) -> None:
    adopted_players.authme.set_password("Player0007", "changed-in-game")
    assert adopted_players.plan().updated == 1
    assert adopted_players.plan().updated == 1
    assert adopted_players.sync().updated == 1


def test_passwords_changed_by_the_dozen_are_all_merged(adopted_players: ServiceHarness) -> None:
    adopted_players.login("Player0001", "Player0001")
    for number in range(40):
        adopted_players.authme.set_password(f"Player{number:04}", "changed-in-game")
    report = adopted_players.sync()
    assert (report.updated, report.conflicts, report.errors) == (40, [], [])
    assert adopted_players.sessions("Player0001") == 0
    assert len(adopted_players.audits("user.password_changed")) == 40
    assert adopted_players.player("player0003").base_hash == adopted_players.row("player0003")["password"]
    reconcile(adopted_players)
    assert not adopted_players.sync().has_effects
