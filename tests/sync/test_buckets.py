"""Division of AuthMe's rows into buckets, and detection of lost rows by counting them."""

from collections.abc import Sequence

import pytest

from regsvc.database.models import StoredBucket, User
from regsvc.sync.candidates import Candidates
from tests.support.adopted_players import MANY, reconcile, synced_players, watched
from tests.support.authme.authme_tables import AuthMeTable, insert_player
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness

REGISTERED_LONG_AGO = 1_500_000_000_000


@pytest.fixture
def adopted_players(make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock) -> ServiceHarness:
    """Three hundred adopted players, and a run that had nothing to do."""
    return synced_players(make_services, authme_table, clock)


# --- how AuthMe's rows are divided ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize(
    "alteration", ["DROP PRIMARY KEY, DROP COLUMN id, ADD PRIMARY KEY (username)", "MODIFY COLUMN id BIGINT NOT NULL"]
)
def test_a_table_without_usual_ids_has_a_digest_too(adopted_players: ServiceHarness, alteration: str) -> None:
    adopted_players.table.database.execute(f"ALTER TABLE {adopted_players.table.name} {alteration}")
    if "MODIFY" in alteration:
        adopted_players.table.database.execute(
            f"UPDATE {adopted_players.table.name} SET id = -5 WHERE username = 'player0001'"
        )
    adopted_players.authme.set_password("Player0002", "changed-in-game")
    assert adopted_players.sync().updated == 1, "and all is divided anew"
    adopted_players.sync()  # looks once more at what the last one wrote
    with watched(adopted_players) as names:
        assert adopted_players.sync().counts() == {"scanned": MANY}
    assert names == set()
    adopted_players.authme.set_password("Player0001", "changed-in-game")
    adopted_players.authme.unregister_from_console("Player0017")
    with watched(adopted_players) as names:
        report = adopted_players.sync()
    assert (report.updated, report.removed) == (1, 1)
    assert len(names) < MANY / 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_names_may_be_bytes(adopted_players: ServiceHarness) -> None:
    adopted_players.table.database.execute(
        f"ALTER TABLE {adopted_players.table.name} MODIFY COLUMN username VARBINARY(255) NOT NULL"
    )
    reconcile(adopted_players)
    adopted_players.authme.set_password("Player0001", "changed-in-game")
    adopted_players.authme.unregister_from_console("Player0017")
    report = adopted_players.sync()
    assert (report.updated, report.removed, report.errors) == (1, 1, [])


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_ids_that_grow_great_divide_the_table_anew(adopted_players: ServiceHarness) -> None:
    for greatest in (1 << 21, (1 << 24) - 2):
        adopted_players.table.database.execute(
            f"UPDATE {adopted_players.table.name} SET id = ? WHERE username = 'player0003'", (greatest,)
        )
        adopted_players.authme.unregister_from_console(f"Player{greatest % 5:04}1")
        reconcile(adopted_players)
        with watched(adopted_players) as names:
            assert not adopted_players.sync().has_effects
        assert names == set()
        adopted_players.authme.set_password("Player0003", f"changed {greatest} times")
        assert adopted_players.sync().updated == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_unique_key_is_no_primary_key(adopted_players: ServiceHarness) -> None:
    alter = f"ALTER TABLE {adopted_players.table.name} "
    adopted_players.table.database.execute(
        f"{alter} MODIFY COLUMN id INT NOT NULL, DROP PRIMARY KEY, DROP KEY username"
    )
    for column in ("id", "username"):
        adopted_players.table.database.execute(f"{alter} ADD UNIQUE KEY {column} ({column})")
    reconcile(adopted_players)
    adopted_players.authme.set_password("Player0002", "changed-in-game")
    assert adopted_players.sync().updated == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_ids_that_are_too_far_apart_divide_nothing(adopted_players: ServiceHarness) -> None:
    alter = f"ALTER TABLE {adopted_players.table.name} MODIFY COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
    adopted_players.table.database.execute(alter)
    adopted_players.table.database.execute(
        f"UPDATE {adopted_players.table.name} SET id = ? WHERE username = 'player0003'", (1 << 60,)
    )
    adopted_players.authme.set_password(
        "Player0002", "changed-in-game"
    )  # else the division of the table is not queried
    reconcile(adopted_players)
    players = adopted_players.app.context.location.players
    assert len(set(players.buckets_of(["player0001", "player0002", "player0003"]).values())) == 3
    adopted_players.authme.set_password("Player0001", "changed-in-game")
    with watched(adopted_players) as names:
        assert adopted_players.sync().updated == 1
    assert len(names) < MANY / 10


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_no_statement_grows_with_what_it_asks_for(
    adopted_players: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    players, database = adopted_players.app.context.location.players, User._meta.database
    table = players.shared_table()
    assert table is not None
    sizes, execute_sql = list[int](), type(database).execute_sql

    def executing(given: object, sql: str, params: Sequence[object] | None = None) -> object:
        sizes.append(len(params or ()) + sql.count(" BETWEEN "))
        return execute_sql(given, sql, params)

    monkeypatch.setattr(type(database), "execute_sql", executing)
    assert len(players.buckets_of([f"player{number:04}" for number in range(5_000)])) == MANY
    assert len(Candidates(database, players).changed_in_buckets(table, range(5_000))) < MANY
    assert max(sizes) <= 500


# --- lost rows ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_row_lost_while_another_is_provisioned_is_found(adopted_players: ServiceHarness, is_restarted: bool) -> None:
    adopted_players.approved("Bob")
    reconcile(adopted_players)
    adopted_players.approved("Alice")
    if is_restarted:
        adopted_players.restart()
    assert int(str(adopted_players.row("alice")["id"])) >> 4 == int(str(adopted_players.row("bob")["id"])) >> 4
    adopted_players.authme.unregister_from_console("Bob")
    assert adopted_players.sync().removed == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_row_lost_while_another_is_adopted_by_name_is_found(adopted_players: ServiceHarness) -> None:
    insert_player(adopted_players.table, username="bob", realname="Bob", password="x", regdate=REGISTERED_LONG_AGO)
    reconcile(adopted_players)
    adopted_players.authme.register("Carol", "carols-password")
    adopted_players.decide("approve", "Carol")
    adopted_players.authme.unregister_from_console("Bob")
    assert adopted_players.sync().removed == 1


def test_a_lost_row_that_was_only_reported_is_found_too(make_services: MakeServices) -> None:
    services = make_services(sync__unapproved_players="report")
    services.register("Alice")
    reconcile(services)
    services.authme.register("Alice", "in-game-password")
    reconcile(services)
    assert services.plugin("alice") == "conflict"
    services.authme.unregister_from_console("Alice")
    services.sync()
    assert services.plugin("alice") == "absent"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_bucket_that_goes_with_an_unfinished_one_is_found(adopted_players: ServiceHarness) -> None:
    for number, name in ((4_000, "lonely"), (8_000, "unsettled")):
        insert_player(
            adopted_players.table, username=name, realname=name, password="x", regdate=REGISTERED_LONG_AGO, id=number
        )
    reconcile(adopted_players)
    StoredBucket.update(row_count=-1).where(StoredBucket.bucket == 8_000 >> 4).execute()
    for name in ("lonely", "unsettled"):
        adopted_players.authme.unregister_from_console(name)
    assert adopted_players.sync().removed == 2
