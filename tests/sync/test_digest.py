"""A run looks at what may have something to do, and at nothing else; and nothing escapes it for that."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from plugin_bridge.authme.table_checksums import bucket_of
from regsvc.database.models import Player, SyncState, User
from regsvc.sync.bulk.in_sync_rows import SettledRows
from tests.support.adopted_players import MANY, reconcile, settled_town, watched
from tests.support.authme_tables import AuthMeTable, TableShape, insert_player
from tests.support.manual_clock import StandingClock
from tests.support.services import PASSWORD, House, MakeHouse

REGISTERED_LONG_AGO = 1_500_000_000_000


@pytest.fixture
def town(make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock) -> House:
    """Three hundred adopted players, and a run that had nothing to do."""
    return settled_town(make_house, authme_table, clock)


def change(house: House, username: str, column: str, value: object) -> None:
    """Past AuthMe's own functions, byte for byte."""
    sql = f"UPDATE {house.table.name} SET {column} = ? WHERE username = ?"
    assert house.table.database.execute(sql, (value, username)) == 1


# --- nothing to do ---


def test_a_tick_without_changes_brings_no_row_over(town: House) -> None:
    with watched(town) as names:
        assert town.sync().counts() == {"scanned": MANY}
    assert names == set()


def test_who_only_plays_is_not_looked_at(town: House) -> None:
    for column in ("lastlogin", "x", "isLogged", "hasSession"):
        change(town, "player0001", column, 1)
    change(town, "player0001", "ip", "203.0.113.9")
    with watched(town) as names:
        town.sync()
    assert names == set()


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_file_that_nobody_wrote_into_is_not_read(town: House, monkeypatch: pytest.MonkeyPatch) -> None:
    players = town.app.context.location.players
    with monkeypatch.context() as patched:
        patched.setattr(players, "changed_buckets", None)
        assert town.sync().scanned == MANY
    change(town, "player0001", "email", "new@example.org")
    assert town.sync().updated == 1
    town.restart()
    assert town.sync().counts() == {"scanned": MANY}


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_of_a_file_with_the_same_players_nothing_is_taken_apart(town: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("plugin_bridge.authme.sqlite_checksums._buckets", None)
        for moment in (1, 2):
            change(town, "player0001", "lastlogin", moment)
            assert town.sync().counts() == {"scanned": MANY}
    change(town, "player0001", "email", "new@example.org")
    assert town.sync().updated == 1


# --- their side ---


def test_of_many_players_only_those_who_changed_are_looked_at(town: House) -> None:
    town.authme.set_password("Player0007", "changed-in-game")
    town.authme.unregister_from_console("Player0017")
    town.authme.register("Dave", "daves-password")
    with watched(town) as names:
        report = town.sync()
    assert (report.updated, report.removed, report.adopted) == (1, 1, 1)
    assert "player0007" in names
    assert len(names) < MANY // 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_nobody_asks_who_is_gone_while_every_row_is_accounted_for(town: House, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    lost = SettledRows.lost

    def asking(rows: SettledRows) -> Iterator[list[str]]:
        nonlocal asked
        asked += 1
        return lost(rows)

    monkeypatch.setattr(SettledRows, "lost", asking)
    town.authme.set_password("Player0007", "changed-in-game")
    assert town.sync().updated == 1
    insert_player(town.table, username="newcomer", realname="Newcomer", password="x", regdate=REGISTERED_LONG_AGO)
    assert town.sync().adopted == 1
    assert asked == 0
    town.authme.unregister_from_console("Player0017")
    assert town.sync().removed == 1
    assert asked == 1


def test_who_leaves_a_bucket_as_another_comes_into_it_is_missed(town: House) -> None:
    stranger = "stranger"
    if town.table.database.kind == "sqlite":
        mates = (f"mate{number}" for number in range(1_000_000))
        stranger = next(name for name in mates if bucket_of(name) == bucket_of("player0007"))
    town.authme.unregister_from_console("Player0007")
    insert_player(town.table, username=stranger, realname=stranger, password="x", regdate=REGISTERED_LONG_AGO)
    report = town.sync()
    assert (report.removed, report.adopted, report.scanned) == (1, 1, MANY)
    assert town.plugin("player0007") == "absent"

    town.authme.unregister_from_console(stranger)
    insert_player(town.table, username="player0007", realname="Player0007", password="x", regdate=REGISTERED_LONG_AGO)
    town.sync()
    assert (town.plugin(stranger), town.plugin("player0007")) == ("absent", "returned")


@pytest.mark.parametrize("column", ["password", "email", "realname"])
def test_two_rows_that_swap_a_value_are_both_seen(town: House, column: str) -> None:
    one, other = town.row("player0001"), town.row("player0002")
    for name, value in (("player0001", other[column]), ("player0002", one[column])):
        change(town, name, column, value)
    with watched(town) as names:
        town.sync()
    assert {"player0001", "player0002"} <= names


def test_the_same_edit_of_two_rows_does_not_cancel_out(town: House) -> None:
    for name in ("player0001", "player0002"):
        change(town, name, "password", "$SHA$same$same")
    assert town.sync().updated == 2


def test_nothing_and_an_empty_text_are_two_values(town: House) -> None:
    change(town, "player0007", "email", "")
    with watched(town) as names:
        town.sync()
    assert "player0007" in names


@pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)
def test_every_shape_of_table_has_a_digest(make_house: MakeHouse, authme_table: AuthMeTable) -> None:
    for name in ("émile", "bob"):
        insert_player(authme_table, username=name, realname=name, password="x", regdate=REGISTERED_LONG_AGO)
    house = make_house()
    reconcile(house)
    change(house, "émile", "password", "y")
    with watched(house) as names:
        assert house.sync().updated == 1
    assert names == {"émile"}
    house.table.database.execute(f"DELETE FROM {house.table.name} WHERE username = ?", ("émile",))
    assert house.sync().removed == 1


def test_a_column_that_authme_adds_is_no_alarm(town: House) -> None:
    town.table.database.execute(f"ALTER TABLE {town.table.name} ADD COLUMN salt VARCHAR(255) NULL")
    assert town.sync().counts() == {"scanned": MANY}


# --- what is left ---


def test_what_a_run_could_not_finish_the_next_one_takes_up(town: House, monkeypatch: pytest.MonkeyPatch) -> None:
    change(town, "player0001", "realname", "PLAYER0001")
    with monkeypatch.context() as patched:
        patched.setattr(town.app.reconciler, "settle", lambda *given, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            town.sync()
    assert town.sync().updated == 1


def test_what_the_brake_holds_is_found_again_and_the_rest_is_not_looked_at_twice(town: House) -> None:
    town.table.database.execute(f"DELETE FROM {town.table.name} WHERE username < ?", ("player0030",))
    town.authme.set_password("Player0200", "changed-in-game")
    assert town.sync().updated == 1
    town.sync()
    for _again in range(2):
        with watched(town) as names:
            braked = town.sync().braked
        assert braked is not None
        assert braked.removed == 30
        assert "player0200" not in names
    assert town.sync(allow_mass_changes=True).removed == 30


# --- our side ---


@pytest.mark.parametrize(
    "edit",
    ["UPDATE regsvc_user SET is_email_verified = 1, email = 'new@example.org', email_key = 'new@example.org'"],
)
def test_a_row_of_ours_that_changes_is_looked_at(town: House, edit: str) -> None:
    town.ours.execute(f"{edit} WHERE username_key = 'player0001'", ())
    with watched(town) as names:
        assert town.sync().updated == 1
    assert names == {"player0001"}
    assert town.row("player0001")["email"] == "new@example.org"


def test_marks_go_away_once_their_rows_have_been_looked_at(house: House) -> None:
    house.approved("Alice")
    house.authme.register("Dave", "daves-password")
    reconcile(house)
    for table in (User, Player):
        assert table.select().where(table.changed_at.is_null(False)).count() == 0
    house.login("Alice", PASSWORD)
    assert User.select().where(User.changed_at.is_null(False)).count() == 1


def test_who_is_deleted_in_sql_while_somebody_registers_is_missed(town: House) -> None:
    town.register("Alice")
    town.ours.execute("DELETE FROM regsvc_user WHERE username_key IN ('player0001', 'alice')", ())
    report = town.sync()
    assert report.removed == 1
    assert {entry.target for entry in town.audits("user.deleted")} == {"player0001", "alice"}


def test_a_user_typed_in_sql_is_met(town: House) -> None:
    town.ours.execute(
        "INSERT INTO regsvc_user (username, username_key, status, applied_status, origin, created_at)"
        " VALUES ('Zoe', 'zoe', 'approved', 'approved', 'created', '2031-05-04 12:00:00.000')",
        (),
    )
    town.sync()
    assert town.plugin("zoe") == "absent"


# --- other circumstances ---


def test_who_is_no_operator_any_more_is_locked_like_anybody(house: House) -> None:
    house.register("Dave")
    house.game.write_operators("Olivia", "Dave")
    house.restart()
    house.authme.register("Dave", "strangers-password")
    reconcile(house)
    assert not house.is_locked("dave")
    house.game.write_operators("Olivia")
    house.restart()
    assert house.sync().locked == 1


def test_another_config_looks_at_everybody(make_house: MakeHouse) -> None:
    house = make_house(sync__unapproved_players="report")
    house.authme.register("Dave", "daves-password")
    reconcile(house)
    assert not house.is_locked("dave")
    house.restart(sync__unapproved_players="lock")
    assert house.sync().locked == 1


def test_once_a_day_and_on_demand_every_row_is_compared(house: House) -> None:
    house.authme.register("Dave", "daves-password")
    reconcile(house)
    Player.update(base_email="unseen", changed_at=None).where(Player.username_key == "dave").execute()
    Player.update(changed_at=None).execute()
    with watched(house) as names:
        house.sync()
        assert names == set()
        house.app.sync.run_alone(is_plan=False, allow_mass_changes=False, is_full=True)
        assert names == {"dave"}
    before = SyncState.get_by_id(1).compared_at
    house.clock.advance(hours=25)
    with watched(house) as names:
        house.sync()
    assert names == {"dave"}
    assert SyncState.get_by_id(1).compared_at >= before + timedelta(days=1)


def test_a_plan_leaves_the_digest_alone(town: House) -> None:
    town.authme.set_password("Player0007", "changed-in-game")
    assert town.plan().updated == 1
    assert town.plan().updated == 1
    assert town.sync().updated == 1


def test_passwords_changed_by_the_dozen_are_all_taken_over(town: House) -> None:
    town.login("Player0001", "Player0001")
    for number in range(40):
        town.authme.set_password(f"Player{number:04}", "changed-in-game")
    report = town.sync()
    assert (report.updated, report.conflicts, report.errors) == (40, [], [])
    assert town.sessions("Player0001") == 0
    assert len(town.audits("user.password_changed")) == 40
    assert town.player("player0003").base_hash == town.row("player0003")["password"]
    reconcile(town)
    assert not town.sync().has_effects
