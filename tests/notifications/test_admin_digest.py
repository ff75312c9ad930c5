"""The digest for admins: at a limited rate, only with new applications, and never twice."""

from datetime import timedelta

import pytest

from regsvc.app.app import App
from regsvc.config.sections import ConfigError
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications.delivery import Drop
from regsvc.notifications.mail.queue import MailQueue
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("sqlite")

ADMINS = ["Olivia@Example.org", "oscar@example.org"]


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    """Services whose admins get a digest once an hour at most."""
    return make_services(mail__admins=ADMINS)


def tick(app: App) -> int:
    return app.admin_digest.run()


def tell_of_alice(services: ServiceHarness) -> None:
    services.register("Alice")
    assert tick(services.app) == 2


def digests() -> list[str]:
    """Recipients of the digests, oldest first."""
    query = OutboxEntry.select().where(OutboxEntry.template == "digest").order_by(OutboxEntry.id)
    return [entry.recipient for entry in query]


def read_digest(services: ServiceHarness) -> tuple[str, str]:
    """Subject and text of the next digest, as it would be sent now."""
    app = services.app
    [mail] = [mail for mail in app.outbox.claim_due(100) if mail.recipient_key == "olivia@example.org"]
    message = app.mail_renderer.render(mail).message
    part = message.get_body(("plain",))
    assert part is not None
    return str(message["Subject"]), str(part.get_content())


@pytest.mark.every_database
def test_every_admin_is_told_who_waits(services: ServiceHarness, clock: ManualClock) -> None:
    services.register("Alice")
    clock.advance(minutes=1)
    services.register("Bob")
    assert tick(services.app) == 2
    assert digests() == ["Olivia@example.org", "oscar@example.org"]
    subject, text = read_digest(services)
    assert subject == "2 waiting for review on Game server"
    assert "Alice · 4 May, 12:00 (UTC)\nBob · 4 May, 12:01 (UTC)\n" in text
    assert "behind them" not in text
    assert "Total: 2." in text
    assert "http://127.0.0.1:8080/admin#queue\n" in text


def test_who_was_asked_is_told_of_only_once_they_have_answered(services: ServiceHarness, clock: ManualClock) -> None:
    """Neither as new nor, a day later, as waiting."""
    for name in ("Alice", "Bob"):
        services.register(name)
        services.ask(name)
    assert tick(services.app) == 0
    clock.advance(hours=25)
    assert tick(services.app) == 0
    services.answer("Alice")
    assert tick(services.app) == 2
    subject, text = read_digest(services)
    assert subject == "1 waiting for review on Game server"
    assert "Alice" in text
    assert "Bob" not in text
    services.ask("Alice", "And who is Dave?")
    clock.advance(hours=25)
    assert tick(services.app) == 0


@pytest.mark.every_database
def test_who_asks_to_stay_waits_as_applicants_do(make_services: MakeServices, clock: ManualClock) -> None:
    services = make_services(mail__admins=ADMINS, membership__renew="ask")
    services.register("Alice")
    services.decide("approve", "Alice", member_until=clock() + timedelta(days=5))
    assert tick(services.app) == 0
    services.app.worker.run_here(services.app.membership_changes.ask_to_stay, "Alice", "")
    assert (tick(services.app), tick(services.app)) == (2, 0)
    clock.advance(minutes=61)
    assert tick(services.app) == 0
    services.register("Bob")
    assert tick(services.app) == 2
    subject, text = read_digest(services)
    assert subject == "2 waiting for review on Game server"
    assert "Bob · 4 May, 13:01 (UTC)\nAlice · 4 May, 12:00 (UTC)\n" in text

    services.register("Carol")
    User.update(created_at=clock() - timedelta(days=9)).where(User.username == "Carol").execute()  # as imported
    OutboxEntry.delete().execute()
    services.app.worker.run_here(services.app.admin_digest.tell, "registration_paused")
    _subject, text = read_digest(services)
    assert "Carol · 25 April, 13:01 (UTC)\nBob · 4 May, 13:01 (UTC)\n" in text
    assert "Alice" not in text  # who may play


def test_nobody_waits_and_nobody_is_told(services: ServiceHarness) -> None:
    assert tick(services.app) == 0
    services.approved("Alice")
    assert tick(services.app) == 0
    assert digests() == []


def test_a_clock_that_was_set_back_keeps_nothing_from_the_admins(services: ServiceHarness, clock: ManualClock) -> None:
    """Neither who registers afterwards, nor, a day later, that Alice still waits."""
    tell_of_alice(services)
    clock.advance(days=-730)
    services.register("Bob")
    assert tick(services.app) == 2
    services.decide("approve", "Bob")
    clock.advance(hours=24)
    assert tick(services.app) == 2
    assert tick(services.app) == 0


def test_who_waits_for_a_day_is_told_of_again_each_day(services: ServiceHarness, clock: ManualClock) -> None:
    tell_of_alice(services)
    clock.advance(hours=20)
    services.register("Bob")
    assert tick(services.app) == 2
    clock.advance(hours=23)
    assert tick(services.app) == 0
    clock.advance(hours=1)
    assert tick(services.app) == 2
    assert tick(services.app) == 0
    clock.advance(hours=24)
    services.decide("approve", "Alice")
    services.decide("approve", "Bob")
    assert tick(services.app) == 0


@pytest.mark.parametrize(("remind_after", "days", "sent"), [("2 days", 1, 0), ("2 days", 2, 2), ("0 seconds", 9, 0)])
def test_when_to_remind_is_the_hosts(
    make_services: MakeServices, clock: ManualClock, remind_after: str, days: int, sent: int
) -> None:
    services = make_services(mail__admins=ADMINS, mail__remind_after=remind_after)
    tell_of_alice(services)
    clock.advance(days=days)
    assert tick(services.app) == sent


def test_no_reminder_is_sooner_than_the_next_digest(make_services: MakeServices, clock: ManualClock) -> None:
    services = make_services(mail__admins=ADMINS, mail__remind_after="10 minutes")
    tell_of_alice(services)
    clock.advance(minutes=59)
    assert tick(services.app) == 0
    clock.advance(minutes=1)
    assert tick(services.app) == 2


def test_news_waits_until_the_hour_is_over(services: ServiceHarness, clock: ManualClock) -> None:
    tell_of_alice(services)
    clock.advance(minutes=1)
    services.register("Bob")
    clock.advance(minutes=58)
    assert tick(services.app) == 0
    clock.advance(minutes=1)
    assert tick(services.app) == 2


def test_a_restart_and_an_emptied_outbox_tell_nothing_twice(services: ServiceHarness, clock: ManualClock) -> None:
    tell_of_alice(services)
    OutboxEntry.delete().execute()
    clock.advance(hours=2)
    services.restart()
    assert tick(services.app) == 0
    services.register("Bob")
    assert tick(services.app) == 2


@pytest.mark.every_database
def test_of_many_at_once_one_tells(services: ServiceHarness) -> None:
    """Daemons may share a database."""
    services.register("Alice")

    def tick_elsewhere() -> int:
        with services.app.context.location.database.connection_context():
            return tick(services.app)

    assert sorted(at_once([tick_elsewhere] * 4)) == [0, 0, 0, 2]
    assert len(digests()) == 2


def test_a_promise_that_could_not_be_written_is_made_again(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.register("Alice")
    with monkeypatch.context() as broken:
        broken.setattr(MailQueue, "send_to_admin", lambda queue, admin, mail: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tick(services.app)
    assert tick(services.app) == 2


def test_it_tells_of_those_who_still_wait_when_it_leaves(services: ServiceHarness) -> None:
    services.register("Alice")
    services.register("Bob")
    tick(services.app)
    services.decide("approve", "Alice")
    assert "Alice" not in read_digest(services)[1]


def test_a_review_meanwhile_makes_it_pointless(services: ServiceHarness) -> None:
    tell_of_alice(services)
    services.decide("approve", "Alice")
    with pytest.raises(Drop, match="no user awaits review any more"):
        read_digest(services)


def test_many_are_counted(services: ServiceHarness) -> None:
    for number in range(33):
        services.register(f"Player{number}")
    tick(services.app)
    text = read_digest(services)[1]
    assert "Player29 · " in text
    assert "Player30 · " not in text
    assert "…and 3 more." in text
    assert "Total: 33." in text


def test_it_speaks_the_hosts_language(make_services: MakeServices) -> None:
    services = make_services(mail__admins=ADMINS, server__language="zh")
    tell_of_alice(services)
    assert read_digest(services)[0] == "Game server 有 1 份申请等待审核"


@pytest.mark.parametrize("given", [{}, {"mail__admins": ADMINS, "mail__backend": "off"}], ids=["nobody", "no mail"])
def test_without_admins_or_mail_nothing_is_written(make_services: MakeServices, given: dict[str, object]) -> None:
    services = make_services(**given)
    if services.app.mail_backend.is_available:
        services.register("Alice")
    assert tick(services.app) == 0


def test_an_address_that_is_none_keeps_it_from_starting(make_services: MakeServices) -> None:
    with pytest.raises(ConfigError, match=r"\[mail\] admins"):
        make_services(mail__admins=["olivia@-"])


def test_the_period_is_the_hosts(make_services: MakeServices, clock: ManualClock) -> None:
    services = make_services(mail__admins=ADMINS, mail__admin_digest="1 day")
    tell_of_alice(services)
    services.register("Bob")
    clock.advance(hours=23)
    assert tick(services.app) == 0
    clock.advance(seconds=timedelta(hours=1).total_seconds())
    assert tick(services.app) == 2
