"""A pause by itself: registration closes while the team lets applications wait, and opens with their next decision."""

from datetime import timedelta

import pytest

from regsvc.core.errors import RegistrationClosed
from regsvc.database.audit import Actor
from regsvc.database.models import AuditEntry, OutboxEntry, Setting, User
from tests.support.services import MakeServices, ServiceHarness

OLIVIA = Actor("Olivia")
PAUSE = {"registration.pause_after": "3 days", "mail.admins": ["olivia@example.org", "oscar@example.org"]}


@pytest.fixture
def paused(make_services: MakeServices) -> ServiceHarness:
    """Services where Alice has waited for three days."""
    services = make_services(**PAUSE)
    services.register("Alice")
    services.clock.advance(days=3)
    tick(services)
    assert services.app.live.is_paused
    return services


def tick(services: ServiceHarness) -> None:
    services.app.worker.run_here(services.app.follow_database)


def is_open(services: ServiceHarness) -> bool:
    tick(services)
    return services.app.live.current.registration.open


def told(services: ServiceHarness) -> list[str]:
    rows = OutboxEntry.select().where(OutboxEntry.template == "registration_paused").order_by(OutboxEntry.id)
    return [row.recipient for row in rows]


def test_alice_waits_for_three_days_and_the_team_is_told_once(paused: ServiceHarness) -> None:
    with pytest.raises(RegistrationClosed) as refused:
        paused.app.live.require_open()
    assert refused.value.facts["fault"] == "paused"
    assert told(paused) == ["olivia@example.org", "oscar@example.org"]

    paused.app.settings._pause()  # another daemon, which looked at the same moment
    paused.restart()
    paused.clock.advance(days=30)

    assert not is_open(paused)
    assert len(told(paused)) == 2
    [entry] = AuditEntry.select().where(AuditEntry.action == "settings.changed")
    assert (entry.operator, entry.detail) == ("registration", '{"setting":"pause","open":false}')


def test_the_first_decision_opens_it_again(paused: ServiceHarness) -> None:
    paused.clock.advance(hours=1)
    paused.decide("reject", "Alice")
    assert is_open(paused)
    paused.register("Bob")
    paused.clock.advance(days=2)
    assert is_open(paused)
    paused.clock.advance(days=1)
    assert not is_open(paused)
    assert len(told(paused)) == 4


def test_only_the_team_decides(make_services: MakeServices) -> None:
    """What the sync does, and what a user does about themselves, is no decision of the team."""
    services = make_services(**PAUSE, **{"registration.ask_expires": "1 hour"})
    services.register("Alice")
    services.register("Bob")
    services.clock.advance(days=2)
    services.ask("Bob")
    services.clock.advance(hours=2)
    services.app.worker.run_here(services.app.decisions.reject_unanswered, timedelta(hours=1))
    assert services.user("Bob").status == "rejected"
    services.clock.advance(days=1)
    assert not is_open(services)


def test_who_withdraws_is_not_waited_for(paused: ServiceHarness) -> None:
    User.delete().where(User.username == "Alice").execute()
    assert is_open(paused)


def test_nobody_waits_so_nothing_is_paused(make_services: MakeServices) -> None:
    services = make_services(**PAUSE)
    services.approved("Alice")
    services.clock.advance(days=30)
    assert is_open(services)
    services.register("Bob")
    services.clock.advance(days=2)
    assert is_open(services), "the wait begins with Bob's application"


def test_a_person_who_opens_it_is_not_overruled(paused: ServiceHarness) -> None:
    paused.app.settings.set_registration(True, None, OLIVIA)
    assert is_open(paused)
    paused.clock.advance(days=2)
    assert is_open(paused)
    paused.clock.advance(days=1)
    assert not is_open(paused)


def test_what_a_person_closed_no_decision_opens(paused: ServiceHarness) -> None:
    paused.app.settings.set_registration(False, None, OLIVIA)
    assert not paused.app.live.is_paused
    paused.clock.advance(hours=1)
    paused.decide("approve", "Alice")
    assert not is_open(paused)


def test_a_host_who_turns_it_off_is_open_at_once(paused: ServiceHarness) -> None:
    paused.restart(**{"registration.pause_after": ""})
    assert is_open(paused)


def test_a_decision_made_while_the_pause_began_counts(make_services: MakeServices) -> None:
    services = make_services(**PAUSE)
    services.register("Alice")
    services.register("Bob")
    services.clock.advance(days=3)
    services.decide("approve", "Alice")
    services.clock.advance(seconds=1)
    services.app.settings._pause()  # as by a daemon that had looked a moment before
    assert is_open(services)


def test_a_clock_that_was_set_back_ends_it(paused: ServiceHarness) -> None:
    paused.clock.advance(days=-2)
    assert is_open(paused)
    assert Setting.select().where(Setting.name == "pause").count() == 0
