"""A run looks at what may have something to do, and at nothing else; and nothing escapes it for that."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest

from plugin_bridge.digests import bucket_of
from plugin_bridge.players import PlayerRow
from regsvc.models import DigestBucket, Player, SyncState, User
from regsvc.sync.digest_settled import SettledRows
from tests.support.authme_tables import AuthMeTable, TableShape, insert_player
from tests.support.crowd import crowd, insert_crowd
from tests.support.house import PASSWORD, House, MakeHouse
from tests.support.standing_clock import StandingClock

MANY = 300
REGISTERED_LONG_AGO = 1_500_000_000_000


@pytest.fixture
def town(make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock) -> House:
    """Three hundred adopted players, and a run that had nothing to do."""
    insert_crowd(authme_table, crowd(MANY, clock))
    house = make_house()
    settle(house)
    return house


def settle(house: House) -> None:
    """What a run wrote itself, the next one looks at once more."""
    for _run in range(2):
        house.sync()
    house.clock.advance(minutes=1)
    house.sync()


@contextmanager
def watched(house: House) -> Iterator[set[str]]:
    """The names whose rows were brought over."""
    players = house.app.ground.home.players
    find_many, pages, looked_at = players.find_many, players.pages, set[str]()

    def finding(keys: Iterable[str]) -> dict[str, PlayerRow]:
        found = find_many(keys)
        looked_at.update(found)
        return found

    def paging(size: int) -> Iterator[list[PlayerRow]]:
        for page in pages(size):
            looked_at.update(row.username for row in page)
            yield page

    players.find_many, players.pages = finding, paging  # type: ignore[method-assign]
    try:
        yield looked_at
    finally:
        players.find_many, players.pages = find_many, pages  # type: ignore[method-assign]


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
    players = town.app.ground.home.players
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
        patched.setattr("plugin_bridge.sqlite_digest._buckets", None)
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
    settle(house)
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
    settle(house)
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
    settle(house)
    assert not house.is_locked("dave")
    house.game.write_operators("Olivia")
    house.restart()
    assert house.sync().locked == 1


def test_another_config_looks_at_everybody(make_house: MakeHouse) -> None:
    house = make_house(sync__unapproved_players="report")
    house.authme.register("Dave", "daves-password")
    settle(house)
    assert not house.is_locked("dave")
    house.restart(sync__unapproved_players="lock")
    assert house.sync().locked == 1


def test_once_a_day_and_on_demand_every_row_is_compared(house: House) -> None:
    house.authme.register("Dave", "daves-password")
    settle(house)
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
    settle(town)
    assert not town.sync().has_effects


# --- how AuthMe's rows are divided ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize(
    "alteration", ["DROP PRIMARY KEY, DROP COLUMN id, ADD PRIMARY KEY (username)", "MODIFY COLUMN id BIGINT NOT NULL"]
)
def test_a_table_without_usual_ids_has_a_digest_too(town: House, alteration: str) -> None:
    town.table.database.execute(f"ALTER TABLE {town.table.name} {alteration}")
    if "MODIFY" in alteration:
        town.table.database.execute(f"UPDATE {town.table.name} SET id = -5 WHERE username = 'player0001'")
    town.authme.set_password("Player0002", "changed-in-game")
    assert town.sync().updated == 1, "and all is divided anew"
    with watched(town) as names:
        assert town.sync().counts() == {"scanned": MANY}
    assert names == set()
    town.authme.set_password("Player0001", "changed-in-game")
    town.authme.unregister_from_console("Player0017")
    with watched(town) as names:
        report = town.sync()
    assert (report.updated, report.removed) == (1, 1)
    assert len(names) < MANY / 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_names_may_be_bytes(town: House) -> None:
    town.table.database.execute(f"ALTER TABLE {town.table.name} MODIFY COLUMN username VARBINARY(255) NOT NULL")
    settle(town)
    town.authme.set_password("Player0001", "changed-in-game")
    town.authme.unregister_from_console("Player0017")
    report = town.sync()
    assert (report.updated, report.removed, report.errors) == (1, 1, [])


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_ids_that_grow_great_divide_the_table_anew(town: House) -> None:
    for greatest in (1 << 21, (1 << 24) - 2):
        town.table.database.execute(f"UPDATE {town.table.name} SET id = ? WHERE username = 'player0003'", (greatest,))
        town.authme.unregister_from_console(f"Player{greatest % 5:04}1")
        settle(town)
        with watched(town) as names:
            assert not town.sync().has_effects
        assert names == set()
        town.authme.set_password("Player0003", f"changed {greatest} times")
        assert town.sync().updated == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_unique_key_is_no_primary_key(town: House) -> None:
    alter = f"ALTER TABLE {town.table.name} "
    town.table.database.execute(f"{alter} MODIFY COLUMN id INT NOT NULL, DROP PRIMARY KEY, DROP KEY username")
    for column in ("id", "username"):
        town.table.database.execute(f"{alter} ADD UNIQUE KEY {column} ({column})")
    settle(town)
    town.authme.set_password("Player0002", "changed-in-game")
    assert town.sync().updated == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_ids_that_are_too_far_apart_divide_nothing(town: House) -> None:
    alter = f"ALTER TABLE {town.table.name} MODIFY COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
    town.table.database.execute(alter)
    town.table.database.execute(f"UPDATE {town.table.name} SET id = ? WHERE username = 'player0003'", (1 << 60,))
    town.authme.set_password("Player0002", "changed-in-game")  # else nobody asks how the table is divided
    settle(town)
    players = town.app.ground.home.players
    assert len(set(players.buckets_of(["player0001", "player0002", "player0003"]).values())) == 3
    town.authme.set_password("Player0001", "changed-in-game")
    with watched(town) as names:
        assert town.sync().updated == 1
    assert len(names) < MANY / 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_no_statement_grows_with_what_it_asks_for(town: House, monkeypatch: pytest.MonkeyPatch) -> None:
    players, database = town.app.ground.home.players, User._meta.database
    table = players.shared_table()
    assert table is not None
    sizes, execute_sql = list[int](), type(database).execute_sql

    def executing(given: object, sql: str, params: Sequence[object] | None = None) -> object:
        sizes.append(len(params or ()) + sql.count(" BETWEEN "))
        return execute_sql(given, sql, params)

    monkeypatch.setattr(type(database), "execute_sql", executing)
    assert len(players.buckets_of([f"player{number:04}" for number in range(5_000)])) == MANY
    assert len(SettledRows(database, table).unsettled_in(range(5_000))) < MANY
    assert max(sizes) <= 500


# --- who is missed ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_who_leaves_as_another_is_provisioned_is_missed(town: House, is_restarted: bool) -> None:
    town.approved("Bob")
    settle(town)
    town.approved("Alice")
    if is_restarted:
        town.restart()
    assert int(str(town.row("alice")["id"])) >> 4 == int(str(town.row("bob")["id"])) >> 4
    town.authme.unregister_from_console("Bob")
    assert town.sync().removed == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_who_leaves_as_another_is_adopted_by_name_is_missed(town: House) -> None:
    insert_player(town.table, username="bob", realname="Bob", password="x", regdate=REGISTERED_LONG_AGO)
    settle(town)
    town.authme.register("Carol", "carols-password")
    town.decide("approve", "Carol")
    town.authme.unregister_from_console("Bob")
    assert town.sync().removed == 1


def test_a_row_that_was_only_told_of_is_missed_too(make_house: MakeHouse) -> None:
    house = make_house(sync__unapproved_players="report")
    house.register("Alice")
    settle(house)
    house.authme.register("Alice", "in-game-password")
    settle(house)
    assert house.plugin("alice") == "conflict"
    house.authme.unregister_from_console("Alice")
    house.sync()
    assert house.plugin("alice") == "absent"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_bucket_that_goes_with_an_unsettled_one_is_missed(town: House) -> None:
    for number, name in ((4_000, "lonely"), (8_000, "unsettled")):
        insert_player(town.table, username=name, realname=name, password="x", regdate=REGISTERED_LONG_AGO, id=number)
    settle(town)
    DigestBucket.update(row_count=-1).where(DigestBucket.bucket == 8_000 >> 4).execute()
    for name in ("lonely", "unsettled"):
        town.authme.unregister_from_console(name)
    assert town.sync().removed == 2
