"""Memberships that end at both gates, and begin anew."""

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest

from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.accounts.decisions import require_nothing
from regsvc.auth.entitlement import Principal
from regsvc.core.errors import InvalidMembership, MembershipNeverEnds, WrongStatus
from regsvc.core.rights import EVERYTHING, PERMISSIONS_OF, Rights
from regsvc.database.audit import Actor
from regsvc.database.models import ADD, Allowed, AuditEntry, OutboxEntry, SyncRecord, User
from regsvc.users.gates import HELD_BACK, RESTART
from regsvc.users.membership import Term
from regsvc.users.transitions import DecisionDetails
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
    services.pass_days(29)
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
def test_nothing_is_left_of_who_is_deleted_after_a_renewal_was_typed_in_sql(services: ServiceHarness) -> None:
    services.approved("Alice")
    set_membership(services, "Alice", Term(duration=MONTH))
    services.pass_days(30)
    services.authme.unregister_from_console("Alice")
    services.sync()
    services.ours.execute("UPDATE regsvc_user SET ended_because = NULL, member_until = NULL WHERE username = 'Alice'")
    services.decide("delete", "Alice")
    assert not SyncRecord.select().where(SyncRecord.intent.is_null(False)).exists()
    assert services.sync().is_idle


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
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("member_until = '2090-01-01'", [("membership.set", "sql")]),
        ("ended_because = 'role'", [("membership.ended", "sql")]),
        ("ended_because = 'role', member_until = '2090-01-01'", [("membership.ended", "sql")]),
    ],
)
def test_a_decision_over_what_was_typed_leaves_it_in_the_audit_log(
    services: ServiceHarness, typed: str, expected: list[tuple[str, str]]
) -> None:
    for name in ("Alice", "Bob", "Carol"):
        services.approved(name)
        services.ours.execute(f"UPDATE regsvc_user SET {typed} WHERE username = '{name}'")
    set_membership(services, "Alice", Term(duration=MONTH))
    services.decide("ban", "Bob")
    services.decide("reopen", "Carol")
    for name in ("Alice", "Bob", "Carol"):
        entries = AuditEntry.select().where(AuditEntry.target == name, AuditEntry.action.startswith("membership."))
        told = [(entry.action, entry.operator) for entry in entries.order_by(AuditEntry.id)]
        assert told[: len(expected)] == expected, name
        assert len(told) == len(expected) + (name == "Alice"), name
    assert state(services, "Alice") == ("approved", None, False)


def test_a_renewal_over_an_end_taken_back_in_sql_opens_the_row(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.ours.execute("UPDATE regsvc_user SET ended_because = 'idle' WHERE username = 'Alice'")
    services.sync()
    assert state(services, "Alice") == ("approved", "idle", True)
    services.ours.execute("UPDATE regsvc_user SET ended_because = NULL WHERE username = 'Alice'")
    set_membership(services, "Alice", Term(duration=MONTH))
    assert state(services, "Alice") == ("approved", None, False)
    assert [entry.operator for entry in services.audits("membership.renewed", "Alice")] == ["sql"]
    assert [entry.operator for entry in services.audits("membership.set", "Alice")] == ["Olivia"]


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
    services.pass_days(31)
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
    services.pass_days(29)
    services.clock.advance(days=1)
    services.authme.set_password("Player4", "a-password-of-the-game")
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
    assert services.player("Player4").base_hash == services.row("player4")["password"], "only the end waits"
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
    place.pass_days(30)
    place.sync()
    assert not server.may_join("Alice")
    assert place.user("Alice").ended_because == "date"
    set_membership(place, "Alice", Term())
    place.sync()
    assert server.may_join("Alice")
    set_membership(place, "Alice", Term(duration=MONTH))
    place.pass_days(31)
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
    services.sync()
    for days, expected in ((22, 0), (1, 1), (1, 1), (4, 1), (1, 2)):
        services.pass_days(days)
        services.sync()
        assert len(mails_about_it(services, "Alice")) == expected, (days, expected)
    services.clock.advance(days=1)
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_ending", "membership_ending", "membership_ended"]
    assert services.sync().is_idle


def text_of_last_mail(services: ServiceHarness) -> str:
    with services.app.context.location.database.atomic():
        mail = OutboxEntry.select().where(OutboxEntry.kind == "mail").order_by(OutboxEntry.id.desc()).get()
        body = services.app.mail_renderer.render(mail).message.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("language", "can", "cannot"),
    [
        ("en", "You can play.", "Before you can play, a password is needed"),
        ("de", "Du kannst spielen.", "fehlt ein Passwort"),
        ("fr", "Tu peux jouer.", "il te faut un mot de passe"),
        ("zh", "你可以进入游戏。", "进入游戏之前需要设置密码"),
    ],
)
def test_a_renewal_says_whether_they_can_play(services: ServiceHarness, language: str, can: str, cannot: str) -> None:
    services.approved("Alice")
    services.approved("Bob", password=None)
    for name, expected, other in (("Alice", can, cannot), ("Bob", cannot, can)):
        User.update(language=language).where(User.username == name).execute()
        set_membership(services, name, Term(duration=MONTH))
        text = text_of_last_mail(services)
        assert expected in text, text
        assert other not in text, text


@pytest.mark.parametrize("reason", [RESTART, HELD_BACK])
def test_a_renewal_blames_no_name_for_a_list_that_waits(
    make_services: MakeServices, server: AllowlistServer, reason: str
) -> None:
    assert server
    place = make_services(authme__enabled=False)
    place.approved("Alice", password="x" * 12)
    place.sync()
    Allowed.update(state=ADD, reason=reason).execute()
    set_membership(place, "Alice", Term(duration=MONTH))
    text = text_of_last_mail(place)
    assert "You cannot play yet: something has to be settled first." in text, text


def test_a_renewal_of_a_name_that_another_player_has_by_now_says_so(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.sync()
    services.authme.unregister_from_console("Alice")
    services.sync()
    services.clock.advance(minutes=1)
    services.authme.register("Alice", "of-another-player")
    services.sync()
    assert services.plugin("Alice") == "returned"
    set_membership(services, "Alice", Term(duration=MONTH))
    assert "Before you can play, a password is needed" in text_of_last_mail(services)


@pytest.mark.parametrize(
    ("is_ended", "expected"), [(False, "a password is needed"), (True, "Your membership has ended.")]
)
def test_a_ban_that_is_taken_back_says_whether_they_can_play(
    services: ServiceHarness, expected: str, *, is_ended: bool
) -> None:
    services.approved("Bob", password=None)
    set_membership(services, "Bob", Term(duration=timedelta(days=2)))
    services.clock.advance(seconds=1)
    since = services.clock()
    mallory = Principal(Actor("Mallory"), EVERYTHING)
    services.app.worker.run_here(services.app.decisions.decide, "Bob", "ban", mallory, DecisionDetails())
    ban = OutboxEntry.select().where(OutboxEntry.template == "banned").get()
    services.app.outbox.record_sent(ban)
    services.clock.advance(days=3 if is_ended else 0, seconds=1)
    undo, host = services.app.undo, Principal(Actor("cli:root"), EVERYTHING)
    span = undo.find_span("Mallory", since, None, host)
    undo.run(span, undo.find_names(span), host)
    if is_ended:
        services.sync()
    mail = OutboxEntry.select().where(OutboxEntry.template == "decision_undone").get()
    with services.app.context.location.database.atomic():
        body = services.app.mail_renderer.render(mail).message.get_body(("plain",))
    assert body is not None
    assert expected in body.get_content()
    assert "You can play." not in body.get_content()


@pytest.mark.every_database
def test_rita_lets_stay_who_asks_and_takes_no_time_from_who_has_no_end(make_services: MakeServices) -> None:
    """Rita is a reviewer: she sets no earlier end than there is. Alice may play for ever, if she plays."""
    services = make_services(membership__ends="30 days", membership__idle="20 days", membership__renew="ask")
    services.approved("Alice")
    services.approved("Bob")
    set_membership(services, "Alice", Term())
    end = services.user("Bob").member_until
    services.sync()
    services.pass_days(15)
    changes, rita = services.app.membership_changes, Principal(Actor("Rita"), Rights(PERMISSIONS_OF["reviewer"], 1))
    for name in ("Alice", "Bob"):
        services.app.worker.run_here(changes.ask_to_stay, name, "")
        services.app.worker.run_here(changes.let_stay, services.user(name), rita, require_nothing)
    assert [services.user(name).member_until for name in ("Alice", "Bob")] == [None, end + MONTH]
    services.pass_days(15)
    assert state(services, "Alice") == ("approved", None, False), "idleness counts from then"
    services.pass_days(7)
    assert state(services, "Alice") == ("approved", "idle", True)
    services.app.worker.run_here(changes.ask_to_stay, "Alice", "")
    services.app.worker.run_here(changes.let_stay, services.user("Alice"), rita, require_nothing)
    assert services.user("Alice").member_until == services.clock() + MONTH


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
    services.pass_days(81)
    assert services.authme.login("Bob", PASSWORD)
    services.authme.quit("Bob")
    services.pass_days(2)
    assert mails_about_it(services, "Alice") == ["membership_ending"]
    services.pass_days(6)
    services.clock.advance(days=1)
    assert services.plan(5).changes["ended"].names == ["alice"]
    services.sync()
    assert state(services, "Alice") == ("approved", "idle", True)
    assert state(services, "Bob") == ("approved", None, False)
    services.login("Alice", PASSWORD)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    services.pass_days(82)
    assert state(services, "Alice") == ("approved", None, False)
    assert state(services, "Bob") == ("approved", "idle", True)


def test_a_login_in_the_game_before_the_end_starts_it_anew(make_services: MakeServices) -> None:
    services = make_services(membership__idle="90 days", membership__idle_returns="ask")
    services.approved("Alice")
    services.pass_days(89)
    services.clock.advance(hours=23)
    services.sync()
    assert services.authme.login("Alice", PASSWORD)
    services.authme.quit("Alice")
    services.clock.advance(minutes=70)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    services.pass_days(93)
    assert state(services, "Alice") == ("approved", "idle", True)
    services.login("Alice", PASSWORD)
    assert state(services, "Alice") == ("approved", "idle", True)


def test_while_authme_cannot_be_asked_nobody_is_idle(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.pass_days(27)
    with authme_away(services):
        services.pass_days(13)
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
    services.pass_days(33)
    assert [services.user(name).ended_because for name in ("Alice", "Bob", "Carol")] == [None, "idle", None]
    assert services.sync().is_idle


def test_idleness_that_is_switched_off_ends_nobody(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.sync()
    services.restart(membership__idle="")
    services.pass_days(40)
    assert services.user("Alice").ended_because is None
    assert services.user("Alice").lapse is None
    assert services.sync().is_idle


def test_a_shorter_time_counts_at_once(make_services: MakeServices) -> None:
    services = make_services(membership__idle="300 days")
    services.approved("Alice")
    services.sync()
    services.restart(membership__idle="30 days")
    services.pass_days(33)
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
    place.pass_days(31)
    assert place.user("Alice").ended_because is None  # there is no world: nothing is known
    folder = game_server.directory / "world" / "playerdata"
    folder.mkdir(parents=True)
    saved = folder / f"{offline_uuid('Bob')}.dat"
    saved.write_bytes(b"")
    os.utime(saved, (place.clock().timestamp() - 3600,) * 2)
    place.clock.advance(minutes=61)
    place.sync()
    assert (place.user("Alice").ended_because, mails_about_it(place, "Alice")) == (None, ["membership_ending"])
    place.pass_days(7)
    assert (place.user("Alice").ended_because, place.user("Bob").ended_because) == ("idle", None)

    place.pass_days(21)
    saved.unlink()
    saved.symlink_to(saved)  # the disk has a fault: again nothing is known, whatever was noted before
    place.pass_days(4)
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
    place.pass_days(28)
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
    place.pass_days(21)
    assert (place.user("Alice").lapses_at, place.user("Alice").ended_because) == (known, None)
    place.pass_days(7)
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
    place.pass_days(29)
    assert place.pass_days(1).memberships_ended == {"date": 25}


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


@pytest.mark.every_database
def test_a_plan_knows_who_played_since_the_last_run_and_writes_nothing(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days", membership__remind=[])
    services.approved("Alice")
    services.approved("Bob")
    services.sync()
    services.pass_days(29)
    assert services.authme.login("Alice", PASSWORD)
    services.authme.quit("Alice")
    services.approved("Carol")
    services.clock.advance(days=2)
    before = list(User.select().order_by(User.id).dicts())
    assert services.plan(5).changes["ended"].names == ["bob"]
    assert list(User.select().order_by(User.id).dicts()) == before
    assert services.sync().memberships_ended == {"idle": 1}
    assert services.user("Carol").lapses_at is not None


def test_a_plan_foresees_whom_a_switch_of_idleness_ends(make_services: MakeServices) -> None:
    services = make_services(membership__remind=[])
    services.approved("Alice")
    services.pass_days(40)
    services.restart(membership__idle="30 days", membership__remind=[])
    assert services.plan(5).changes["ended"].names == ["alice"]
    assert services.user("Alice").lapses_at is None
    assert services.sync().memberships_ended == {"idle": 1}


@pytest.mark.every_database
@pytest.mark.parametrize(("idle", "notice"), [("30 days", 7), ("5 days", 1)])
def test_idleness_that_is_switched_on_ends_nobody_before_a_reminder(
    make_services: MakeServices, idle: str, notice: int
) -> None:
    services = make_services()
    services.approved("Alice")
    services.pass_days(60)
    services.restart(membership__idle=idle)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    assert mails_about_it(services, "Alice") == ["membership_ending"]
    services.clock.advance(days=notice, seconds=-1)
    services.sync()
    assert state(services, "Alice") == ("approved", None, False)
    services.clock.advance(seconds=1)
    services.sync()
    assert state(services, "Alice") == ("approved", "idle", True)


@pytest.mark.every_database
def test_a_daemon_that_was_off_reminds_before_it_ends_who_does_not_play(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days")
    services.approved("Alice")
    services.sync()
    services.clock.advance(days=40)
    services.restart()
    services.sync()
    assert mails_about_it(services, "Alice") == ["membership_ending"]
    services.pass_days(6)
    assert state(services, "Alice") == ("approved", None, False)
    services.pass_days(1)
    assert state(services, "Alice") == ("approved", "idle", True)
    assert mails_about_it(services, "Alice")[-1] == "membership_ended"


def test_no_reminder_comes_where_none_is_wanted(make_services: MakeServices) -> None:
    services = make_services(membership__idle="30 days", membership__remind=[])
    services.approved("Alice")
    services.pass_days(30)
    assert state(services, "Alice") == ("approved", "idle", True)
