"""Into which buckets AuthMe's rows fall, and who is missed by counting them."""

from collections.abc import Sequence

import pytest

from regsvc.database.models import DigestBucket, User
from regsvc.sync.bulk.in_sync_rows import SettledRows
from tests.support.adopted_players import MANY, reconcile, settled_town, watched
from tests.support.authme_tables import AuthMeTable, insert_player
from tests.support.manual_clock import StandingClock
from tests.support.services import House, MakeHouse

REGISTERED_LONG_AGO = 1_500_000_000_000


@pytest.fixture
def town(make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock) -> House:
    """Three hundred adopted players, and a run that had nothing to do."""
    return settled_town(make_house, authme_table, clock)


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
    reconcile(town)
    town.authme.set_password("Player0001", "changed-in-game")
    town.authme.unregister_from_console("Player0017")
    report = town.sync()
    assert (report.updated, report.removed, report.errors) == (1, 1, [])


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_ids_that_grow_great_divide_the_table_anew(town: House) -> None:
    for greatest in (1 << 21, (1 << 24) - 2):
        town.table.database.execute(f"UPDATE {town.table.name} SET id = ? WHERE username = 'player0003'", (greatest,))
        town.authme.unregister_from_console(f"Player{greatest % 5:04}1")
        reconcile(town)
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
    reconcile(town)
    town.authme.set_password("Player0002", "changed-in-game")
    assert town.sync().updated == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_ids_that_are_too_far_apart_divide_nothing(town: House) -> None:
    alter = f"ALTER TABLE {town.table.name} MODIFY COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
    town.table.database.execute(alter)
    town.table.database.execute(f"UPDATE {town.table.name} SET id = ? WHERE username = 'player0003'", (1 << 60,))
    town.authme.set_password("Player0002", "changed-in-game")  # else nobody asks how the table is divided
    reconcile(town)
    players = town.app.context.location.players
    assert len(set(players.buckets_of(["player0001", "player0002", "player0003"]).values())) == 3
    town.authme.set_password("Player0001", "changed-in-game")
    with watched(town) as names:
        assert town.sync().updated == 1
    assert len(names) < MANY / 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_no_statement_grows_with_what_it_asks_for(town: House, monkeypatch: pytest.MonkeyPatch) -> None:
    players, database = town.app.context.location.players, User._meta.database
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
    reconcile(town)
    town.approved("Alice")
    if is_restarted:
        town.restart()
    assert int(str(town.row("alice")["id"])) >> 4 == int(str(town.row("bob")["id"])) >> 4
    town.authme.unregister_from_console("Bob")
    assert town.sync().removed == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_who_leaves_as_another_is_adopted_by_name_is_missed(town: House) -> None:
    insert_player(town.table, username="bob", realname="Bob", password="x", regdate=REGISTERED_LONG_AGO)
    reconcile(town)
    town.authme.register("Carol", "carols-password")
    town.decide("approve", "Carol")
    town.authme.unregister_from_console("Bob")
    assert town.sync().removed == 1


def test_a_row_that_was_only_told_of_is_missed_too(make_house: MakeHouse) -> None:
    house = make_house(sync__unapproved_players="report")
    house.register("Alice")
    reconcile(house)
    house.authme.register("Alice", "in-game-password")
    reconcile(house)
    assert house.plugin("alice") == "conflict"
    house.authme.unregister_from_console("Alice")
    house.sync()
    assert house.plugin("alice") == "absent"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_bucket_that_goes_with_an_unsettled_one_is_missed(town: House) -> None:
    for number, name in ((4_000, "lonely"), (8_000, "unsettled")):
        insert_player(town.table, username=name, realname=name, password="x", regdate=REGISTERED_LONG_AGO, id=number)
    reconcile(town)
    DigestBucket.update(row_count=-1).where(DigestBucket.bucket == 8_000 >> 4).execute()
    for name in ("lonely", "unsettled"):
        town.authme.unregister_from_console(name)
    assert town.sync().removed == 2
