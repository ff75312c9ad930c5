"""Adoption in SQL has the same result for every row as adoption one by one."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

from plugin_bridge.authme.players import PlayerRow, lock_text
from regsvc.database.models import Player, User
from regsvc.sync.bulk.adoption import BulkAdoption
from regsvc.sync.bulk.in_sync_rows import KeyRange
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable, TableShape, dump_table, insert_player
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness

OLD, MINUTE = 1_500_000_000_000, 60_000


@pytest.fixture
def database_kind() -> DatabaseKind:
    """AuthMe's table is on the server that has ours."""
    return "mariadb"


@pytest.fixture(autouse=True)
def few_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regsvc.sync.bulk.adoption._MIN_NEW_ROWS", 1)


def odd_rows(clock: ManualClock, shape: TableShape) -> list[dict[str, Any]]:
    """Rows as real tables hold them, each named after what is odd about it."""
    now = int(clock().timestamp() * 1000)
    emails = [
        "alice@example.org",
        "ALICE@Example.ORG",
        "taken@example.org",
        " padded@example.org",
        "a@b",
        "no-at-all",
        "two@@example.org",
        "dot.@example.org",
        'quo"ted"@example.org',
        "x@example.invalid",
        "x@sub-.example.org",
        "x@xn--bcher-kva.example.org",
        "x@a--b.example.org",
        "x+tag@example.co.uk",
        "line@example.org\n",
        "your@email.com",
        "YOUR@email.com",
        "",
        "  ",
        "a" * 65 + "@example.org",
        "büro@example.org",
        '"alice"@example.org',
    ]
    if shape is not TableShape.OLD:  # there it cannot be NULL
        emails.append(None)  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = [
        {"username": f"mail{index:02}", "realname": f"Mail{index:02}", "password": "x", "regdate": OLD, "email": email}
        for index, email in enumerate(emails)
    ]
    names = [
        ("bob", "BoB"), ("carol", "Player"), ("player", "Player"), ("dave", "Robert"), ("e b", "E b"), ("..", ".."),
        ("émile", "Émile"), ("x" * 100, "X" * 100), ("frank", ""), ("olivia", "Olivia"),
    ]  # fmt: skip
    rows += [{"username": key, "realname": name, "password": "y", "regdate": OLD} for key, name in names]
    dates = [0, -5, 1, 1_600_000_000, now - MINUTE, now + MINUTE, 9_000_000_000_000_000]
    rows += [
        {"username": f"date{index}", "realname": f"Date{index}", "password": "z", "regdate": date}
        for index, date in enumerate(dates)
    ]
    rows.append({"username": "locked", "realname": "Locked", "password": lock_text("h" * 40), "regdate": OLD})
    return rows


def everything(services: ServiceHarness) -> tuple[list[Any], ...]:
    """Our rows, without ids and the moments of the run."""
    left_out = {"id", "user_id", "changed_at"}
    tables: list[Any] = [User, Player]
    return tuple(
        [
            {name: value for name, value in row.items() if name not in left_out}
            for row in table.select().order_by(table.username_key).dicts()
        ]
        for table in tables
    )


@pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)
@pytest.mark.parametrize("existing", ["approved", "pending"])
def test_sql_decides_as_the_plan_does(
    make_services: MakeServices,
    authme_table: AuthMeTable,
    authme_shape: TableShape,
    clock: ManualClock,
    existing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for row in odd_rows(clock, authme_shape):
        insert_player(authme_table, **row)
    before = dump_table(authme_table)
    services = make_services(sync__existing_players=existing, sync__max_changes="100 and 100%")
    services.game.write_operators("Olivia")
    services.register("Zoe", email="taken@example.org")
    planned = services.plan()
    assert User.select().count() == 1
    in_sql = services.sync()
    made = everything(services)
    told = (in_sql.counts(), sorted(in_sql.conflicts, key=str), in_sql.errors)
    counts = {key: value for key, value in in_sql.counts().items() if key in ("scanned", "adopted")}
    assert {key: planned.counts().get(key) for key in counts} == counts
    assert sorted(planned.conflicts, key=str) == sorted(in_sql.conflicts, key=str)

    User.delete().where(User.username_key != "zoe").execute()
    Player.delete().where(Player.username_key != "zoe").execute()
    for row in before:
        restore(authme_table, row)
    with monkeypatch.context() as patched:
        patched.setattr(services.app.context.location.players, "shared_table", lambda: None)
        by_name = services.app.sync.run_alone(is_plan=False, allow_mass_changes=False, is_full=True)
        assert (by_name.counts(), sorted(by_name.conflicts, key=str), by_name.errors) == told
        assert everything(services) == made
    services.sync()
    assert not services.sync().has_effects


def restore(table: AuthMeTable, dumped: dict[str, object]) -> None:
    """Write the password column back from its dump in hexadecimal digits."""
    table.database.execute(
        f"UPDATE {table.name} SET password = CONVERT(UNHEX(?) USING ascii), hasSession = 0 WHERE HEX(username) = ?",
        (dumped["password"], dumped["username"]),
    )


def test_what_sql_was_interrupted_at_is_not_looked_at_again(
    make_services: MakeServices, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regsvc.sync.bulk.in_sync_rows.BATCH", 10)
    for number in range(40):
        name = f"player{number:02}"
        insert_player(authme_table, username=name, realname=name, password="x", regdate=OLD)
    services = make_services()
    pages = iter([True, True, False])
    assert services.app.sync._sync.run(may_go_on=lambda: next(pages)).adopted == 30
    assert [detail["count"] for detail in services.details("user.adopted")] == [10, 10, 10]
    services.restart()
    players = services.app.context.location.players
    looked_at: set[str] = set()
    find_many = players.find_many

    def watching(keys: Iterable[str]) -> dict[str, PlayerRow]:
        looked_at.update(keys)
        return find_many(keys)

    monkeypatch.setattr(players, "find_many", watching)
    assert services.sync().adopted == 10
    assert looked_at == set()
    lasts = [detail["last"] for detail in services.details("user.adopted")]
    assert lasts == ["player09", "player19", "player29", "player39"]


def test_a_server_that_cannot_do_it_gets_it_done_name_by_name(
    make_services: MakeServices, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_player(authme_table, username="bob", realname="Bob", password="x", regdate=OLD)
    services = make_services()
    monkeypatch.setattr("regsvc.sync.bulk.adoption._NAME", "[")
    assert services.plan().adopted == 1
    assert services.sync().adopted == 1


# --- changes in between ---


class Meanwhile:
    """Runs statements after the sync records of a range were inserted, and before its users are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, table: AuthMeTable, *statements: str) -> None:
        make_users = BulkAdoption._insert_users

        def interrupted(adoption: BulkAdoption, block: tuple[int, int], moment: datetime) -> int:
            for statement in statements:
                table.database.execute(statement)
            return make_users(adoption, block, moment)

        monkeypatch.setattr(BulkAdoption, "_insert_users", interrupted)


def register(name: str) -> str:
    return (
        "INSERT INTO regsvc_user (username, username_key, status, applied_status, origin, created_at) "
        f"VALUES ('{name}', '{name}', 'pending', 'pending', 'registered', UTC_TIMESTAMP(3))"
    )


def test_who_registers_meanwhile_gets_an_id_of_her_own(
    make_services: MakeServices, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alice", "bob"):
        insert_player(authme_table, username=name, realname=name.title(), password="x", regdate=OLD)
    services = make_services()
    Meanwhile(monkeypatch, authme_table, register("carol"))
    report = services.sync()
    assert (report.adopted, report.errors, report.conflicts) == (2, [], [])
    ids = {name: services.user(name).id for name in ("alice", "bob", "carol")}
    assert len(set(ids.values())) == 3
    assert {name: services.player(name).user_id for name in ("alice", "bob")} == {
        "alice": ids["alice"],
        "bob": ids["bob"],
    }
    assert services.player("carol").user_id == ids["carol"]


def test_who_takes_a_name_meanwhile_keeps_it(
    make_services: MakeServices, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alice", "bob", "carol"):
        insert_player(authme_table, username=name, realname=name.title(), password="x", regdate=OLD)
    services = make_services()
    Meanwhile(monkeypatch, authme_table, register("bob"))
    report = services.sync()
    assert (report.adopted, report.errors) == (2, [])
    assert [services.user(name).origin for name in ("alice", "bob", "carol")] == ["adopted", "registered", "adopted"]
    assert (services.user("bob").status, services.user("bob").reason) == ("rejected", "name_taken_in_game"), (
        "a player was first"
    )
    assert services.player("bob").user_id == services.user("bob").id, "the agreement made for another user is gone"
    [entry] = services.details("user.adopted")
    assert (entry["count"], entry["first"], entry["last"]) == (2, "Alice", "Carol")
    assert not Player.select().where(Player.user_id.not_in(User.select(User.id))).exists()


def test_sync_records_of_others_in_the_range_stay(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="alice", realname="Alice", password="x", regdate=OLD)
    services = make_services()
    services.sync()
    before = services.player("alice").__data__
    authme_table.database.execute(f"UPDATE {authme_table.name} SET password = 'y'")
    insert_player(authme_table, username="bob", realname="Bob", password="x", regdate=OLD)
    table = services.app.context.location.players.shared_table()
    assert table is not None
    adoption = BulkAdoption(
        User._meta.database, table, services.app.reconciler.context.audit, services.app.reconciler.policy
    )
    assert adoption.adopt(KeyRange(None, None), [], services.clock()).count == 1
    assert services.player("alice").__data__ == before
    assert services.sync().updated == 1, "that she changed her password is still to be found"


def test_ids_of_deleted_users_are_never_used_again(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    services = make_services()
    services.sync()
    services.register("Zoe")
    last = services.user("zoe").id
    services.decide("delete", "Zoe")
    insert_player(authme_table, username="bob", realname="Bob", password="x", regdate=OLD)
    services.sync()
    assert services.user("bob").id > last


def test_who_draws_an_id_while_a_block_is_reserved_has_one_before_it(
    make_services: MakeServices, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alice", "bob"):
        insert_player(authme_table, username=name, realname=name.title(), password="x", regdate=OLD)
    services = make_services()
    insert = User.insert

    def interrupted(**given: Any) -> Any:
        if "id" in given:
            authme_table.database.execute(register("carol"))
        return insert(**given)

    monkeypatch.setattr(User, "insert", interrupted)
    assert services.sync().adopted == 2
    [entry] = services.details("user.adopted")
    assert (entry["count"], entry["first"], entry["last"]) == (2, "Alice", "Bob")
    assert services.user("carol").id < services.user("alice").id


@pytest.mark.parametrize("is_odd", [True, False], ids=["an odd row", "the last row"])
def test_who_comes_into_a_range_pushes_nobody_out(
    make_services: MakeServices, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch, is_odd: bool
) -> None:
    for module in ("bulk.in_sync_rows", "bulk.adoption", "run"):
        monkeypatch.setattr(f"regsvc.sync.{module}.BATCH", 10)
    names = [f"player{number:02}" for number in range(10)]
    for name in names:
        password = lock_text("h" * 40) if is_odd and name == "player05" else "x"
        insert_player(authme_table, username=name, realname=name, password=password, regdate=OLD)
    services = make_services()
    reserve, came = BulkAdoption._reserve_ids, list[str]()

    def interrupted(adoption: BulkAdoption, moment: datetime) -> tuple[int, int]:
        if not came:
            came.append("player000")
            insert_player(authme_table, username="player000", realname="player000", password="x", regdate=OLD, id=5_000)
        return reserve(adoption, moment)

    monkeypatch.setattr(BulkAdoption, "_reserve_ids", interrupted)
    services.sync()
    assert {user.username_key for user in User.select()} == {*names, "player000"}


def test_a_placeholder_with_spaces_is_no_email(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    for name, email in (("alice", "your@email.com "), ("bob", "Your@email.com  ")):
        insert_player(authme_table, username=name, realname=name.title(), password="x", regdate=OLD, email=email)
    services = make_services()
    services.sync()
    assert [services.user(name).email for name in ("alice", "bob")] == [None, None]
