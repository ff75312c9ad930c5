"""Memberships that end at both gates, and begin anew."""

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest

from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.core.errors import InvalidMembership, MembershipNeverEnds, WrongStatus
from regsvc.database.models import User
from regsvc.users.membership import Term
from tests.support.authme.game_server import GameServer
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.services import OLIVIA, PASSWORD, MakeServices, ServiceHarness, authme_away

MONTH = timedelta(days=30)


def set_membership(services: ServiceHarness, name: str, term: Term) -> None:
    services.app.worker.run_here(services.app.membership_changes.set, name, term, OLIVIA)


def state(services: ServiceHarness, name: str) -> tuple[str, str | None, bool]:
    user = services.user(name)
    return user.status, user.ended_because, services.is_locked(name.lower())


@pytest.mark.every_database
def test_a_season_ends_and_begins_anew(make_services: MakeServices) -> None:
    services = make_services(membership__ends="30 days")
    services.approved("Alice")
    assert services.user("Alice").member_until == services.clock() + MONTH
    services.clock.advance(days=29)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)

    services.clock.advance(days=1)
    services.sync()
    assert state(services, "Alice") == ("approved", "date", True)
    assert services.player("Alice").lock_reason == "ended"
    assert services.mails("Alice")[-1] == "membership_ended"
    assert services.details("membership.ended", "Alice") == [{"because": "date"}]
    assert services.sync().is_idle

    set_membership(services, "Alice", Term(duration=MONTH))
    assert state(services, "Alice") == ("approved", None, False)
    assert services.user("Alice").member_until == services.clock() + MONTH
    assert services.mails("Alice")[-1] == "membership_renewed"
    assert len(services.audits("membership.renewed", "Alice")) == 1
    assert services.authme.login("Alice", PASSWORD)


@pytest.mark.every_database
def test_an_end_typed_in_sql_holds_and_is_audited(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.ours.execute("UPDATE regsvc_user SET member_until = '2020-01-01' WHERE username = 'Alice'")
    services.sync()
    assert state(services, "Alice") == ("approved", "date", True)
    assert [entry.operator for entry in services.audits("membership.set")] == ["sql"]
    services.ours.execute("UPDATE regsvc_user SET member_until = '2090-01-01' WHERE username = 'Alice'")
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    services.ours.execute("UPDATE regsvc_user SET ended_because = 'role' WHERE username = 'Alice'")
    services.sync()
    assert state(services, "Alice") == ("approved", "role", True)
    services.ours.execute("UPDATE regsvc_user SET ended_because = NULL WHERE username = 'Alice'")
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    assert [entry.operator for entry in services.audits("membership.renewed")] == ["sql", "sql"]


@pytest.mark.every_database
def test_without_authme_an_end_typed_in_sql_holds_whatever_was_typed_beside_it(
    make_services: MakeServices, server: AllowlistServer
) -> None:
    place = make_services(authme__enabled=False)
    place.register("Alice")
    place.decide("approve", "Alice")
    place.sync()
    ends = "ended_because = 'date', ended_at = '2026-01-01 00:00:00'", "ended_because = NULL, ended_at = NULL"
    for typed, may_join, action in zip(ends, (False, True), ("membership.ended", "membership.renewed"), strict=True):
        place.ours.execute(f"UPDATE regsvc_user SET {typed} WHERE username = 'Alice'")
        place.sync()
        assert server.may_join("Alice") is may_join
        assert [entry.operator for entry in place.audits(action, "Alice")] == ["sql"]


def test_a_ban_wins_and_an_unban_leaves_the_end(services: ServiceHarness) -> None:
    services.approved("Bob")
    set_membership(services, "Bob", Term(duration=MONTH))
    services.decide("ban", "Bob")
    services.clock.advance(days=31)
    services.sync()
    assert (services.user("Bob").status, services.user("Bob").ended_because) == ("banned", None)
    assert services.decide("unban", "Bob").warnings == ("membership_ended",)
    services.sync()
    assert state(services, "Bob") == ("approved", "date", True)
    services.decide("ban", "Bob")
    assert services.decide("unban", "Bob").warnings == ("membership_ended",)
    assert "unbanned" not in services.mails("Bob"), "which would say that he may join"
    assert state(services, "Bob") == ("approved", "date", True)
    with pytest.raises(WrongStatus):
        services.decide("approve", "Bob")


def test_who_is_no_member_gets_no_end(services: ServiceHarness) -> None:
    services.register("Alice")
    with pytest.raises(WrongStatus):
        set_membership(services, "Alice", Term(duration=MONTH))
    services.approved("Rita")
    User.update(role="reviewer", applied_role="reviewer").where(User.username == "Rita").execute()
    with pytest.raises(MembershipNeverEnds):
        set_membership(services, "Rita", Term(duration=MONTH))
    services.approved("Bob")
    with pytest.raises(InvalidMembership):
        set_membership(services, "Bob", Term(until=services.clock()))
    assert services.user("Bob").member_until is None


def test_a_decision_that_takes_the_approval_takes_the_end(services: ServiceHarness) -> None:
    services.approved("Bob")
    set_membership(services, "Bob", Term(duration=MONTH))
    services.decide("reopen", "Bob")
    assert services.user("Bob").member_until is None
    services.decide("approve", "Bob", member_until=services.clock() + timedelta(days=5))
    assert services.user("Bob").member_until == services.clock() + timedelta(days=5)


@pytest.mark.every_database
def test_too_many_ends_at_once_wait_for_a_person(services: ServiceHarness) -> None:
    names = [f"Player{number}" for number in range(30)]
    for name in names:
        services.approved(name, password="x" * 12)
        set_membership(services, name, Term(duration=MONTH))
    services.clock.advance(days=300)
    plan = services.plan()
    assert plan.changes_held_back["locked"].count == 30
    report = services.sync()
    assert report.held_back is not None
    assert (report.held_back.locked, report.held_back.ended) == (30, 30)
    assert plan.changes_held_back["ended"].count == 30
    services.set_password("Player2", "another-password")
    services.decide("ban", "Player3")
    services.decide("unban", "Player3")
    assert services.authme.login("Player2", "another-password"), "although the end waits"
    assert User.select().where(User.ended_because.is_null(False)).count() == 0
    assert not services.is_locked("player1")
    assert services.sync(allow_mass_changes=True).memberships_ended == {"date": 30}
    assert User.select().where(User.access == "ended").count() == 30
    assert services.is_locked("player1")


@pytest.fixture
def server(game_server: GameServer) -> Iterator[AllowlistServer]:
    with allowlist_server(game_server.directory) as running:
        game_server.write_properties(online_mode="false", white_list="true", **running.properties)
        yield running


@pytest.mark.every_database
def test_the_allowlist_follows_without_authme(make_services: MakeServices, server: AllowlistServer) -> None:
    place = make_services(authme__enabled=False, membership__ends="30 days")
    place.register("Alice")
    place.decide("approve", "Alice")
    place.sync()
    assert server.may_join("Alice")
    place.clock.advance(days=30)
    place.sync()
    place.sync()
    assert not server.may_join("Alice")
    assert place.user("Alice").ended_because == "date"
    set_membership(place, "Alice", Term())
    place.sync()
    assert server.may_join("Alice")
    set_membership(place, "Alice", Term(duration=MONTH))
    place.clock.advance(days=31)
    place.sync()
    place.sync()
    assert not server.may_join("Alice")
    server.type_add("Alice")  # an operator of the game renews it
    place.sync()
    assert server.may_join("Alice")
    assert place.user("Alice").ended_because is None


def mails_about_it(services: ServiceHarness, name: str) -> list[str]:
    return [mail for mail in services.mails(name) if mail.startswith("membership")]


@pytest.mark.every_database
def test_reminders_come_once_each(make_services: MakeServices) -> None:
    services = make_services(membership__ends="30 days")
    services.approved("Alice")
    for days, expected in ((22, 0), (1, 1), (1, 1), (4, 1), (1, 2), (0, 2)):
        services.clock.advance(days=days)
        services.sync()
        assert len(mails_about_it(services, "Alice")) == expected, (days, expected)
    services.clock.advance(days=1)
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_ending", "membership_ending", "membership_ended"]
    assert services.sync().is_idle


def test_a_short_membership_has_no_reminder_from_before_it_began(services: ServiceHarness) -> None:
    services.approved("Alice")
    set_membership(services, "Alice", Term(duration=timedelta(days=3)))
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_renewed"]
    services.clock.advance(days=2)
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_renewed", "membership_ending"]


@pytest.mark.every_database
def test_who_does_not_play_is_ended_and_comes_back_by_a_login(make_services: MakeServices) -> None:
    services = make_services(membership__idle="90 days")
    services.approved("Alice")
    services.approved("Bob")
    services.sync()
    services.clock.advance(days=80)
    assert services.authme.login("Bob", PASSWORD)
    services.authme.quit("Bob")
    services.clock.advance(days=5)
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_ending"]
    services.clock.advance(days=5)
    assert services.plan(5).changes["ended"].names == ["alice"]
    services.sync()
    assert state(services, "Alice") == ("approved", "idle", True)
    assert state(services, "Bob") == ("approved", None, False)
    services.login("Alice", PASSWORD)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    services.clock.advance(days=81)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    assert state(services, "Bob") == ("approved", "idle", True)


def test_a_login_in_the_game_before_the_end_starts_it_anew(make_services: MakeServices) -> None:
    services = make_services(membership__idle="90 days", membership__idle_returns="ask")
    services.approved("Alice")
    services.clock.advance(days=89, hours=23)
    services.sync()
    assert services.authme.login("Alice", PASSWORD)
    services.authme.quit("Alice")
    services.clock.advance(minutes=70)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    services.clock.advance(days=91)
    services.sync()
    assert state(services, "Alice") == ("approved", "idle", True)
    services.login("Alice", PASSWORD)
    assert state(services, "Alice") == ("approved", "idle", True)


def test_while_authme_cannot_be_asked_nobody_is_idle(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.clock.advance(days=40)
    with authme_away(services):
        services.sync()
        assert services.user("Alice").ended_because is None
    services.sync()
    assert services.user("Alice").ended_because == "idle"


@pytest.mark.every_database
def test_a_login_at_a_time_that_no_clock_has_counts_as_one_of_now(make_services: MakeServices) -> None:
    """AuthMe's column takes any number, and another program may write it."""
    services = make_services(membership__idle="30 days")
    for name, last in (("Alice", 2**63 - 1), ("Bob", -(2**63)), ("Carol", 253_402_300_799_000)):
        services.approved(name)
        services.table.database.execute(
            f"UPDATE {services.table.name} SET lastlogin = {last} WHERE username = '{name.lower()}'"
        )
    services.clock.advance(days=31)
    services.sync()
    assert [services.user(name).ended_because for name in ("Alice", "Bob", "Carol")] == [None, "idle", None]
    assert services.sync().is_idle


def test_idleness_that_is_switched_off_ends_nobody(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.sync()
    services.restart(membership__idle="")
    services.clock.advance(days=40)
    services.sync()
    assert services.user("Alice").ended_because is None
    assert services.user("Alice").lapse is None
    assert services.sync().is_idle


def test_a_shorter_time_counts_at_once(make_services: MakeServices) -> None:
    services = make_services(membership__idle="300 days")
    services.approved("Alice")
    services.sync()
    services.restart(membership__idle="30 days")
    services.clock.advance(days=31)
    services.sync()
    assert services.user("Alice").ended_because == "idle"


@pytest.mark.every_database
def test_without_authme_the_world_tells_who_played(
    make_services: MakeServices, server: AllowlistServer, game_server: GameServer
) -> None:
    place = make_services(authme__enabled=False, membership__idle="30 days")
    for name in ("Alice", "Bob"):
        place.register(name)
        place.decide("approve", name)
    place.sync()
    place.clock.advance(days=31)
    place.sync()
    assert place.user("Alice").ended_because is None  # there is no world: nothing is known
    folder = game_server.directory / "world" / "playerdata"
    folder.mkdir(parents=True)
    saved = folder / f"{offline_uuid('Bob')}.dat"
    saved.write_bytes(b"")
    os.utime(saved, (place.clock().timestamp() - 3600,) * 2)
    place.clock.advance(minutes=61)
    place.sync()
    assert (place.user("Alice").ended_because, place.user("Bob").ended_because) == ("idle", None)

    place.clock.advance(days=30)
    saved.unlink()
    saved.symlink_to(saved)  # the disk has a fault: again nothing is known, whatever was noted before
    place.sync()
    assert place.user("Bob").ended_because is None
    saved.unlink()
    place.clock.advance(minutes=61)
    place.sync()
    assert place.user("Bob").ended_because == "idle"


@pytest.mark.every_database
def test_a_world_that_is_away_or_replaced_ends_nobody(
    make_services: MakeServices, server: AllowlistServer, game_server: GameServer
) -> None:
    place = make_services(authme__enabled=False, membership__idle="30 days")
    place.register("Alice")
    place.decide("approve", "Alice")
    world = game_server.directory / "world"
    saved = world / "playerdata" / f"{offline_uuid('Alice')}.dat"
    saved.parent.mkdir(parents=True)

    def play() -> None:
        saved.write_bytes(b"")
        os.utime(saved, (place.clock().timestamp(),) * 2)

    play()
    place.sync()
    place.clock.advance(minutes=61)
    place.sync()
    place.clock.advance(days=28)
    play()  # she plays before her end comes, and the disk goes away
    world.rename(game_server.directory / "elsewhere")
    place.clock.advance(days=2)
    place.sync()
    assert place.user("Alice").ended_because is None
    (game_server.directory / "elsewhere").rename(world)
    place.sync()
    known = place.user("Alice").lapses_at
    assert known == place.clock() + timedelta(days=28)
    saved.unlink()  # a new season begins with a new world, which has not seen her
    place.clock.advance(days=21)
    place.sync()
    assert (place.user("Alice").lapses_at, place.user("Alice").ended_because) == (known, None)
    place.clock.advance(days=7)
    place.sync()
    assert place.user("Alice").ended_because == "idle"


def test_operators_are_reminded_of_nothing(make_services: MakeServices, game_server: GameServer) -> None:
    services = make_services(membership__idle="90 days")
    services.approved("Alice")
    services.approved("Bob")
    game_server.write_operators("Bob")
    services.restart()
    services.clock.advance(days=85)
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_ending"]
    assert (mails_about_it(services, "Bob"), services.user("Bob").lapses_at) == ([], None)


@pytest.mark.every_database
def test_without_authme_few_of_many_members_end_at_once(make_services: MakeServices, server: AllowlistServer) -> None:
    place = make_services(authme__enabled=False)
    end = place.clock() + MONTH
    for first, count, until in (("season", 25, end), ("always", 500, None)):
        rows = [{"username": f"{first}{n}", "username_key": f"{first}{n}", "origin": "created"} for n in range(count)]
        same = {"status": "approved", "applied_status": "approved", "created_at": place.clock()}
        User.insert_many([row | same | {"member_until": until, "applied_until": until} for row in rows]).execute()
    place.sync(allow_mass_changes=True)
    place.clock.advance(days=31)
    assert place.sync().memberships_ended == {"date": 25}


@pytest.mark.every_database
def test_impossible_times_end_nobody_and_stop_no_run(make_services: MakeServices) -> None:
    services = make_services(membership__idle="90 days")
    for name in ("Alice", "Bob", "Carol", "Rita"):
        services.approved(name)
    services.sync()
    table = services.table
    for name, login in (("alice", 9_000_000_000_000_000), ("bob", 253_402_300_799_000), ("carol", -5_000)):
        table.database.execute(f"UPDATE {table.name} SET lastlogin = {login} WHERE username = '{name}'")
    services.ours.execute("UPDATE regsvc_user SET renewed_at = '9999-12-31 23:00:00' WHERE username = 'Rita'")
    services.clock.advance(days=89)
    services.sync()
    services.decide("ban", "Carol")
    assert state(services, "Carol")[2]
    for name in ("Alice", "Bob", "Rita"):
        assert services.user(name).lapses_at == services.clock() + timedelta(days=90)


def test_a_plan_knows_who_played_since_the_last_run(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.approved("Bob")
    services.sync()
    services.clock.advance(days=29)
    assert services.authme.login("Alice", PASSWORD)
    services.authme.quit("Alice")
    services.clock.advance(days=2)
    assert services.plan(5).changes["ended"].names == ["bob"]
    assert services.sync().memberships_ended == {"idle": 1}
