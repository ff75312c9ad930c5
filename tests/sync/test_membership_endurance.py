"""Memberships under strain: a year of 200 members, clocks that jump, 40 changes at once, and kills at every commit."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import count

import pytest

from regsvc.auth.entitlement import Principal
from regsvc.core.errors import Refusal
from regsvc.core.rights import EVERYTHING
from regsvc.database import failpoints
from regsvc.database.audit import Actor
from regsvc.database.models import User
from regsvc.users.membership import Term
from tests.support.services import PASSWORD, MakeServices, ServiceHarness, authme_away
from tests.support.statements import recorded_statements
from tests.support.together import at_once

HOST = Principal(Actor("cli:root"), EVERYTHING)
DAY = timedelta(days=1)


def renew(services: ServiceHarness, name: str, duration: timedelta = 30 * DAY) -> None:
    services.app.worker.run_here(services.app.membership_changes.set, name, Term(duration=duration), HOST)


def find_ended() -> dict[str, str | None]:
    ended = User.select(User.username, User.ended_because).where(User.ended_because.is_null(False))
    return {user.username: user.ended_because for user in ended}


class Server:
    """A server with 200 members. Each dated one ends on a day of its own; of the others, half come every 30 days."""

    def __init__(self, services: ServiceHarness) -> None:
        self.services = services
        self.dated = [f"Dated{number}" for number in range(100)]
        self.active = [f"Active{number}" for number in range(50)]
        self.lazy = [f"Lazy{number}" for number in range(50)]
        for number in range(100):  # idleness counts from a moment of each one's own
            names = [self.dated[number], (self.active if number % 2 else self.lazy)[number // 2]]
            for name in names:
                services.authme.register(name, PASSWORD)
            services.clock.advance(hours=12)
        services.sync()
        self.begun = services.clock()
        for number, name in enumerate(self.dated):
            renew(services, name, DAY * (5 + 3 * number))
        self.pass_days(30)

    def find_end(self, name: str) -> datetime:
        return self.begun + DAY * (5 + 3 * self.dated.index(name))

    def pass_days(self, days: int) -> None:
        for _day in range(0, days, 3):
            self.services.clock.advance(days=3)
            today = (self.services.clock() - self.begun).days // 3
            dated = [it for it in self.dated[today % 10 :: 10] if self.find_end(it) > self.services.clock()]
            for name in [*self.active[today % 10 :: 10], *dated]:
                if self.services.authme.login(name, PASSWORD):
                    self.services.authme.quit(name)
            self.services.sync()

    def check(self) -> None:
        now, ended = self.services.clock(), find_ended()
        assert {name for name, why in ended.items() if why == "date"} == {
            name for name in self.dated if self.find_end(name) <= now
        }
        assert not set(self.active) & set(ended)


@pytest.mark.long
def test_a_year_with_an_authme_that_is_away_and_a_clock_that_jumps(make_services: MakeServices) -> None:
    services = make_services(membership__idle="90 days", sync__new_players="approved")
    server = Server(services)
    server.pass_days(30)
    server.check()
    with authme_away(services):
        before = Counter(find_ended().values())
        services.pass_days(7)
        assert Counter(find_ended().values())["idle"] == before["idle"], "nobody knows who played"
    server.pass_days(60)
    server.check()
    assert set(server.lazy) & set(find_ended())

    for years in (2, -2):
        before = Counter(find_ended())
        services.clock.advance(days=365 * years)
        for _run in range(3):
            report = services.sync()
            assert (report.held_back is not None) == (years > 0)
            assert Counter(find_ended()) == before, "a clock that jumps ends nobody"
        assert [services.is_locked(name.lower()) for name in server.active] == [False] * 50
        services.clock.advance(days=-365 * years)
        assert services.sync().held_back is None
        assert Counter(find_ended()) == before

    server.pass_days(270)
    server.check()
    assert set(server.lazy) <= set(find_ended())
    told = Counter(entry.target for entry in services.audits("membership.ended"))
    assert set(told.values()) == {1}, "each once"
    assert services.sync().is_idle


@pytest.mark.every_database
@pytest.mark.parametrize("is_restarted", [False, True])
def test_ends_wait_for_a_person_after_a_clock_was_set_forward(services: ServiceHarness, *, is_restarted: bool) -> None:
    """Few members are no mass change, and the clock may as well be wrong as the companion may have been off."""
    for name, duration in (("Alice", 30 * DAY), ("Bob", 400 * DAY)):
        services.approved(name)
        renew(services, name, duration)
    services.sync()

    def jump(days: int) -> None:
        services.clock.advance(days=days)
        if is_restarted:
            services.restart()

    jump(365)
    services.authme.set_password("Alice", "a-password-of-the-game")
    for _run in range(2):
        report = services.sync()
        assert report.held_back is not None
        assert (report.held_back.ended, report.held_back.days) == (1, 365)
        assert find_ended() == {}
    assert services.player("Alice").base_hash == services.row("alice")["password"], "only the end waits"
    assert services.plan(5).changes_held_back["ended"].names == ["alice"]
    services.clock.advance(days=2)
    held_back = services.sync().held_back
    assert (held_back and held_back.days) == 365, "the runs since then are no pause"
    assert [entry["days"] for entry in services.details("sync.braked")] == [365]
    jump(-367)
    assert services.sync().held_back is None
    services.pass_days(30)
    assert find_ended() == {"Alice": "date"}

    jump(370)
    assert services.sync().held_back is not None
    assert services.sync(allow_mass_changes=True).memberships_ended == {"date": 1}
    assert services.sync().held_back is None
    services.approved("Carol")
    renew(services, "Carol", DAY)
    services.clock.advance(days=1)
    assert services.sync().memberships_ended == {"date": 1}, "the clock counts from then"


@pytest.mark.every_database
def test_a_run_that_was_stopped_does_not_make_a_clock_right(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease went to another daemon before it came to Bob, whose membership ends."""
    monkeypatch.setattr("regsvc.sync.run._ROWS", 1)
    services.approved("Alice")
    services.approved("Bob")
    renew(services, "Bob")
    services.sync()
    services.clock.advance(days=365)
    assert not services.app.sync._runner.run(may_go_on=lambda: False).is_complete
    services.clock.advance(minutes=1)
    assert services.sync().held_back is not None
    assert find_ended() == {}


def test_a_clock_that_was_set_forward_does_not_end_what_is_left_when_others_are_renewed(
    services: ServiceHarness,
) -> None:
    names = [f"Player{number}" for number in range(22)]
    for name in names:
        services.approved(name, password="x" * 12)
        renew(services, name)
    services.sync()
    services.clock.advance(days=365)
    assert services.sync().held_back is not None
    for name in names[:5]:
        renew(services, name, 700 * DAY)
    held_back = services.sync().held_back
    assert held_back is not None
    assert (held_back.ended, held_back.days) == (17, 365)
    assert find_ended() == {}


def run_at_once(services: ServiceHarness, calls: list[Callable[[], object]]) -> list[object]:
    """Run each call on a thread with a connection of its own; return results and refusals."""

    def run(call: Callable[[], object]) -> object:
        try:
            return services.app.worker.run_here(call)
        except Refusal as refusal:
            return refusal.code
        finally:
            services.app.worker.close_here()

    return at_once([partial(run, call) for call in calls])


@pytest.mark.one_database("mariadb")
def test_forty_extensions_at_once_all_count(services: ServiceHarness) -> None:
    services.approved("Alice")
    renew(services, "Alice")
    before = services.user("Alice").member_until
    extend = partial(services.app.membership_changes.set, "Alice", Term(duration=DAY), HOST)
    done = run_at_once(services, [extend] * 40)
    refused = [result for result in done if isinstance(result, str)]
    assert services.user("Alice").member_until == before + DAY * (40 - len(refused))
    assert refused == []
    assert len(services.audits("membership.set", "Alice")) == 41


@pytest.mark.one_database("mariadb")
def test_forty_ends_renewals_and_bans_at_once_leave_one_truth(services: ServiceHarness) -> None:
    services.approved("Alice")
    renew(services, "Alice", DAY)
    services.clock.advance(days=2)
    app = services.app
    calls: list[Callable[[], object]] = []
    for _number in range(10):
        calls.append(partial(app.membership_changes.set, "Alice", Term(duration=DAY), HOST))
        calls.append(partial(app.reconciler.reconcile, "alice"))
        calls.append(partial(app.reconciler.reconcile, "alice"))
        calls.append(partial(services.decide, "ban", "Alice"))
    run_at_once(services, calls)
    services.sync()
    alice = services.user("Alice")
    ended, renewed = (len(services.audits(f"membership.{what}", "Alice")) for what in ("ended", "renewed"))
    assert (alice.status, ended - renewed) == ("banned", int(alice.ended_because is not None))
    services.decide("unban", "Alice")
    services.sync()
    assert services.is_locked("alice") == (services.user("Alice").ended_because is not None)
    assert services.sync().is_idle
    renew(services, "Alice")
    assert services.authme.login("Alice", PASSWORD)


@pytest.mark.one_database("mariadb")
def test_several_daemons_remind_once(make_services: MakeServices) -> None:
    services = make_services(membership__ends="30 days")
    services.approved("Alice")
    services.clock.advance(days=24)
    ids = [services.user("Alice").id]
    remind = partial(services.app.membership_watch.remind, ids)
    assert sum(int(str(told)) for told in run_at_once(services, [remind] * 8)) == 1
    services.sync()
    assert services.mails("Alice").count("membership_ending") == 1


class Killed(BaseException):
    """Ends the process: no code of ours catches it."""


def kill_at(point: str, number: int) -> Callable[[failpoints.Point], None]:
    passed = count(1)

    def reach(here: failpoints.Point) -> None:
        if here == point and next(passed) == number:
            raise Killed

    return reach


@pytest.mark.every_database
@pytest.mark.parametrize("point", ["before commit", "after commit"])
@pytest.mark.parametrize("ends", [True, False], ids=["end", "renewal"])
def test_a_kill_at_each_commit_leaves_nothing_half_done(services: ServiceHarness, point: str, *, ends: bool) -> None:
    for number in count(1):
        name = f"Alice{number}"
        services.approved(name)
        renew(services, name, DAY)
        services.clock.advance(days=1)
        if not ends:
            services.sync()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(failpoints, "reach", kill_at(point, number))
            try:
                services.sync() if ends else renew(services, name)
                was_killed = False
            except Killed:
                was_killed = True
        services.restart()
        services.sync()
        user, audits = services.user(name), (services.audits(f"membership.{it}", name) for it in ("ended", "renewed"))
        ended, renewed = map(len, audits)
        assert (ended, renewed) == ((1, 0) if user.ended_because else (1, 1))
        assert services.is_locked(name.lower()) == (user.ended_because is not None)
        assert services.mails(name).count("membership_ended") == 1
        assert (user.ended_because is not None) or not ends
        if not was_killed:
            assert number > 1, "there is a commit"
            return


@pytest.mark.one_database("mariadb")
def test_a_host_that_uses_none_of_it_pays_with_no_statement(make_services: MakeServices) -> None:
    """The one that finds expired bans finds ends, too."""
    services = make_services()
    services.approved("Alice")
    for _run in range(3):
        services.sync()
    with recorded_statements() as statements:
        assert services.sync().is_idle
    about = [sql for sql in statements if any(it in sql for it in ("due_at", "lapse", "member_", "ended", "stay_"))]
    dates, due = about
    assert dates.startswith("SELECT username, CASE WHEN COALESCE(YEAR("), "the one that finds dates that are none"
    assert "ORDER BY `t1`.`due_at`" in due
    assert len(statements) <= 15, statements
