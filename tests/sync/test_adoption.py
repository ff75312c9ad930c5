"""The first start beside a server in use: thousands of players become users, and their table stays as it is."""

import logging
from collections import Counter

import pytest

from plugin_bridge.authme.players import lock_text
from regsvc.auth.entitlement import Principal
from regsvc.core import errors
from regsvc.core.rights import EVERYTHING
from regsvc.database.audit import Actor
from regsvc.database.models import APPROVED, BANNED, PENDING, SyncRecord, User
from regsvc.sync.reconciler import unlock_all
from regsvc.users.transitions import DecisionDetails
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape, dump_table, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness

MANY = 2_000


def decide_as_host(services: ServiceHarness, transition: str, name: str) -> None:
    """Make a decision on the command line."""
    host = Principal(Actor("cli"), EVERYTHING)
    services.app.worker.run_here(services.app.decisions.decide, name, transition, host, DecisionDetails())


def test_thousands_of_players_become_users_and_their_table_stays_as_it_is(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    insert_player_rows(authme_table, make_player_rows(MANY, clock))
    before = dump_table(authme_table)
    services = make_services()
    report = services.sync()
    assert report.counts() == {"scanned": MANY, "adopted": MANY}
    assert report.errors == []
    assert report.held_back is None
    assert dump_table(authme_table) == before

    users = {user.username_key: user for user in User.select()}
    assert len(users) == MANY
    assert {user.status for user in users.values()} == {user.applied_status for user in users.values()} == {APPROVED}
    assert {user.origin for user in users.values()} == {"adopted"}
    assert not any(user.is_email_verified for user in users.values())
    assert not any(user.password_hash for user in users.values())
    first = users["player0000"]
    assert (first.username, first.email, first.email_key) == (
        "Player0000",
        "Player0@example.org",
        "player0@example.org",
    )
    assert int(first.created_at.timestamp() * 1000) == services.player("player0000").base_regdate
    assert users["player0009"].username == "player0009"
    for number in (5, 6, 7, 8):
        assert users[f"player{number:04}"].email_key is None
    fields = Counter((conflict.field, conflict.why, conflict.username[-1]) for conflict in report.conflicts)
    assert fields == {("email", "invalid", "5"): MANY // 10, ("email", "taken", "8"): MANY // 10}
    states = Counter(player.plugin_state for player in SyncRecord.select())
    assert states == {"synced": MANY * 8 // 10, "conflict": MANY * 2 // 10}
    entries = services.details("user.adopted")
    assert sum(entry["count"] for entry in entries) == MANY
    assert min(entry["first"].lower() for entry in entries) == "player0000"
    assert max(entry["last"].lower() for entry in entries if "last" in entry) >= f"player{MANY - 2:04}"

    again = services.sync()
    assert (again.counts(), again.conflicts) == ({"scanned": MANY}, [])
    assert dump_table(authme_table) == before
    assert User.select().count() == MANY


def test_a_crash_between_two_pages_is_taken_up_where_it_stopped(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regsvc.sync.run._ROWS", 500)
    insert_player_rows(authme_table, make_player_rows(1200, clock))
    services = make_services()
    pages = iter([True, False])
    stopped = services.app.sync._runner.run(may_go_on=lambda: next(pages))
    assert stopped.adopted == 1000
    services.restart()
    assert services.sync().adopted == 200
    assert User.select().count() == 1200


@pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)
def test_players_before_and_after_the_first_start(
    make_services: MakeServices, authme: AuthMeLike, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    before = AuthMeLike(authme_table, now=clock)
    before.register("Bob", "bobs-password", email="bob@example.org")
    before.register("Olivia", "olivias-password")
    insert_player(authme_table, username="carol", realname="Carol", password="x")  # regdate: the column's default
    clock.advance(seconds=1)
    services = make_services()
    clock.advance(seconds=1)
    services.authme.register("Dave", "daves-password")
    services.game.write_operators("Olivia", "Oscar")
    services.authme.register("Oscar", "oscars-password")
    report = services.sync()
    assert (report.adopted, report.locked) == (5, 1)
    statuses = {user.username: user.status for user in User.select()}
    assert statuses == {
        "Bob": APPROVED,
        "Olivia": APPROVED,
        "Carol": APPROVED,
        "Dave": PENDING,
        "Oscar": PENDING,
    }
    assert [name for name in ("bob", "olivia", "carol", "dave", "oscar") if services.is_locked(name)] == ["dave"]
    assert services.user("Bob").email == "bob@example.org"
    services.decide("approve", "Dave")
    assert services.authme.login("Dave", "daves-password")


# R51
def test_a_stranger_who_took_an_operators_name_in_the_game_has_to_make_room(services: ServiceHarness) -> None:
    services.authme.register("Olivia", "mallorys-secret")
    services.sync()
    assert (services.user("Olivia").status, services.plugin("olivia")) == (PENDING, "conflict")
    services.clock.advance(minutes=1)
    services.authme.unregister_from_console("Olivia")
    with pytest.raises(errors.PlayerReplaced):
        decide_as_host(services, "approve", "Olivia")
    services.authme.register("Olivia", "olivias-secret")
    with pytest.raises(errors.PlayerReplaced):
        decide_as_host(services, "approve", "Olivia")
    decide_as_host(services, "ban", "Olivia")
    with pytest.raises(errors.PlayerReplaced):
        decide_as_host(services, "unban", "Olivia")
    decide_as_host(services, "delete", "Olivia")
    services.clock.advance(minutes=1)
    services.authme.register("Olivia", "olivias-secret")
    services.sync()
    assert services.user("Olivia").status == PENDING
    assert services.authme.login("Olivia", "olivias-secret")
    assert services.authme.change_password("Olivia", "olivias-secret", "olivias-new-secret")
    decide_as_host(services, "approve", "Olivia")
    services.sync()
    assert (services.user("Olivia").status, services.plugin("olivia")) == (APPROVED, "synced")
    assert services.authme.login("Olivia", "olivias-new-secret")
    assert services.login("Olivia", "olivias-new-secret").is_admin is True


def test_an_operator_who_was_banned_before_the_approval_may_be_unbanned(services: ServiceHarness) -> None:
    services.authme.register("Olivia", "olivias-secret")
    services.sync()
    decide_as_host(services, "ban", "Olivia")
    services.sync()
    decide_as_host(services, "unban", "Olivia")
    assert services.user("Olivia").status == APPROVED
    assert services.authme.login("Olivia", "olivias-secret")


@pytest.mark.parametrize(("approval", "status"), [(True, PENDING), (False, APPROVED)])
def test_new_players_are_as_new_users_are(make_services: MakeServices, approval: bool, status: str) -> None:
    services = make_services(registration__approval=approval)
    services.authme.register("Dave", "daves-password")
    services.sync()
    assert services.user("Dave").status == status
    assert services.is_locked("dave") is approval


def test_a_row_locked_by_an_earlier_installation_is_adopted_as_banned(
    make_services: MakeServices, authme_table: AuthMeTable
) -> None:
    insert_player(authme_table, username="bob", realname="Bob", password=lock_text("x" * 40), regdate=1)
    before = dump_table(authme_table)
    services = make_services()
    assert services.sync().adopted == 1
    user = services.user("Bob")
    assert (user.status, user.reason) == (BANNED, "locked by an earlier installation")
    assert dump_table(authme_table) == before
    services.decide("unban", "Bob")
    assert services.row("bob")["password"] == "x" * 40


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_of_two_rows_of_one_name_the_lower_case_one_is_the_player(
    make_services: MakeServices, authme_table: AuthMeTable
) -> None:
    insert_player(authme_table, username="Alice", realname="Alice", password="shouted", regdate=1)
    insert_player(authme_table, username="alice", realname="alice", password="quiet", regdate=1)
    insert_player(authme_table, username="Bob", realname="Bob", password="x", regdate=1)
    before = dump_table(authme_table)
    services = make_services()
    report = services.sync()
    assert report.adopted == 1
    assert [(told.username, told.field) for told in report.conflicts] == [("Alice", "name"), ("Bob", "name")]
    assert services.player("alice").base_hash == "quiet"
    assert services.find_user("Bob") is None
    assert dump_table(authme_table) == before
    services.decide("ban", "Alice")
    [shouted, quiet, bob] = dump_table(authme_table)
    assert [shouted, bob] == [before[0], before[2]]
    assert "!locked!" in quiet["password"]


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_sqlite_lets_a_column_hold_anything(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="alice", realname="Alice", password="x", regdate="2031-01-01", email=7)
    insert_player(authme_table, username="bob", realname="Bob", password=b"y", regdate=1.5)
    services = make_services()
    report = services.sync()
    assert (report.adopted, report.errors) == (2, [])
    assert services.sync().counts() == {"scanned": 2}
    for name in ("alice", "bob"):
        assert services.decide("ban", name).warnings == ()
        assert services.is_locked(name)
    assert unlock_all(services.app.context.location.players) == (2, {})
    assert services.row("bob")["password"] == "y"


NO_UTF8 = b"\xff\xfeA"


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_bytes_that_are_no_text_stop_nobody(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    """Such bytes come from websites that write Latin-1, or blobs."""
    authme_table.database.execute(
        "INSERT INTO authme (username, realname, password, email, regdate) VALUES "
        "(CAST(x'6AFC7267656E' AS TEXT), CAST(x'4AFC7267656E' AS TEXT), 'x', NULL, 1), "  # jürgen
        "(CAST('dave' AS BLOB), 'Dave', 'x', NULL, 1), "
        "('bob', 'Bob', CAST(x'FFFE41' AS TEXT), CAST(x'FC40782E6F7267' AS TEXT), 9e999), "
        "('alice', CAST('Alice' AS BLOB), CAST('y' AS BLOB), CAST('alice@example.org' AS BLOB), '1700000000000')"
    )
    before = dump_table(authme_table)
    services = make_services()
    report = services.sync()
    assert (report.adopted, report.errors) == (2, [])
    told = {(conflict.username, conflict.field) for conflict in report.conflicts}
    assert told == {("j\ufffdrgen", "name"), ("\ufffddave", "name"), ("bob", "email")}
    assert dump_table(authme_table) == before
    assert services.sync().counts() == {"scanned": 4}
    assert (services.user("Alice").email, services.user("Bob").email) == ("alice@example.org", None)

    for name in ("alice", "bob"):
        assert services.decide("ban", name).warnings == ()
        assert services.is_locked(name)
        assert services.decide("unban", name).warnings == ()
    assert services.row("alice")["password"] == "y"
    assert services.row("bob")["password"] == NO_UTF8.decode(errors="replace")
    assert services.decide("delete", "Bob").warnings == ()
    assert services.sync().errors == []
    assert [row["username"] for row in dump_table(authme_table)] == [before[index]["username"] for index in (0, 1, 3)]


def test_a_name_that_nobody_can_write_is_nobodys(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    names = {" ", "bo\nb", "b\x7fb", "b\u200bb", "carl "}
    for name in names:
        insert_player(authme_table, username=name, realname=name, password="x", regdate=1)
    before = dump_table(authme_table)
    services = make_services()
    told = services.sync().conflicts
    assert {conflict.username for conflict in told} == names
    assert {(conflict.field, conflict.why) for conflict in told} == {("name", "unfindable")}
    assert User.select().count() == 0
    assert dump_table(authme_table) == before


def test_a_time_in_seconds_is_understood(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    """Old versions and other programs write seconds; the doctor advises hosts to multiply them."""
    long_ago = 1_400_000_000
    insert_player(authme_table, username="alice", realname="Alice", password="x", regdate=long_ago, lastlogin=long_ago)
    insert_player(authme_table, username="bob!", realname="Bob!", password="x", regdate=long_ago)  # not adopted in SQL
    services = make_services()
    assert services.sync().counts() == {"scanned": 2, "adopted": 2}
    for name in ("Alice", "Bob!"):
        assert (services.user(name).status, services.user(name).created_at.timestamp()) == (APPROVED, long_ago)

    authme_table.database.execute(f"UPDATE {authme_table.name} SET regdate = regdate * 1000")
    report = services.sync()
    assert (report.locked, report.errors, report.held_back) == (0, [], None)
    assert not services.is_locked("alice")
    assert (services.player("alice").base_regdate, services.plugin("alice")) == (long_ago * 1000, "synced")

    clock.advance(hours=1)
    seconds = int(clock().timestamp())
    for name in ("carol", "dave!"):
        insert_player(authme_table, username=name, realname=name.title(), password="x", regdate=seconds)
    services.sync()
    assert {services.user(name).status for name in ("Carol", "Dave!")} == {PENDING}
    assert services.is_locked("carol")


def test_adoption_ends_where_somebody_was_faster(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    """Two processes, or a login during a run: each name gets one user."""
    insert_player_rows(authme_table, make_player_rows(40, clock))
    services = make_services()
    for name in ("player0003", "player0017"):
        services.decide("ban", name)
    report = services.sync()
    assert report.adopted == 38
    assert User.select().count() == SyncRecord.select().where(SyncRecord.user_id.is_null(False)).count() == 40
    assert report.has_effects


def test_a_table_without_the_configured_address_column_is_told(
    make_services: MakeServices, game_server: GameServer, authme_table: AuthMeTable, caplog: pytest.LogCaptureFixture
) -> None:
    """The host renamed the column in AuthMe's config only."""
    AuthMeLike(authme_table).register("Bob", "bobs-password", email="bob@example.org")
    game_server.change_authme({"DataSource.mySQLColumnEmail": "mail"})
    services = make_services()
    with caplog.at_level(logging.WARNING, "regsvc.sync.run"):
        assert services.sync().adopted == 1
        AuthMeLike(authme_table).register("Carol", "carols-password")
        assert services.sync().adopted == 1
    assert services.user("Bob").email is None
    [told] = caplog.messages
    assert "without their e-mail addresses: AuthMe's table has no column mail (DataSource.mySQLColumnEmail" in told


def test_a_run_that_was_stopped_says_so(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    insert_player_rows(authme_table, make_player_rows(2_100, clock))
    services = make_services()
    with caplog.at_level(logging.INFO, "regsvc.sync.run"):
        stopped = services.app.sync._runner.run(may_go_on=lambda: False)
        assert not stopped.is_complete
        services.sync()
    first, second = caplog.messages
    assert first.endswith("; stopped before the end: the next run does the rest")
    assert "stopped" not in second
    assert "e-mail addresses differ (each side keeps its own" in first
