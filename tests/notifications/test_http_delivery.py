"""Background delivery of mails through services over HTTP: not twice, when they may come again, and nothing is lost."""

from datetime import timedelta

import pytest
from peewee import Database

from regsvc.core.email_address import parse_email
from regsvc.database.models import OutboxEntry
from regsvc.notifications.mail.http_backend import Brevo, HttpBackend, Resend
from tests.support.mail_parts import MailHarness, delivering
from tests.support.manual_clock import ManualClock
from tests.support.peers.mail_service import DOMAIN, KEY, Answered, MailService

pytestmark = pytest.mark.one_database("sqlite")


def http_backend(service: MailService, key: str = KEY) -> HttpBackend:
    kind = {"resend": Resend, "brevo": Brevo}[service.kind]
    return HttpBackend(f"noreply@{DOMAIN}", kind(service.url, key), allows_private=True)


@pytest.fixture
def from_our_domain(our_database: Database, clock: ManualClock) -> MailHarness:
    return MailHarness(our_database, clock, sender=f"noreply@{DOMAIN}")


@pytest.mark.parametrize("provider", ["resend", "brevo"])
async def test_a_lost_answer_does_not_mail_twice(
    from_our_domain: MailHarness, our_database: Database, clock: ManualClock, provider: str
) -> None:
    from_our_domain.ask_for_code()
    with MailService(provider) as service:
        service.lose_next_answer()
        async with delivering(from_our_domain, our_database, http_backend(service)) as under_way:
            await under_way.worker.until(lambda: OutboxEntry.get().last_error is not None)
            clock.advance(minutes=1)
            under_way.delivery.wake()
            await under_way.worker.until(lambda: OutboxEntry.get().outcome == "sent")
    assert len([asked for asked in service.requests if asked.method == "POST"]) == 2
    assert len(service.mails) == 1
    assert OutboxEntry.get().attempts == 2


async def test_a_service_that_asks_to_wait_is_left_alone_so_long(
    from_our_domain: MailHarness, our_database: Database, clock: ManualClock
) -> None:
    from_our_domain.ask_for_code()
    with MailService("resend") as service:
        service.answer(Answered(503, {"name": "application_error"}, {"Retry-After": "600"}))
        async with delivering(from_our_domain, our_database, http_backend(service)) as under_way:
            await under_way.worker.until(lambda: OutboxEntry.get().last_error is not None)
    assert OutboxEntry.get().next_attempt_at - clock() == timedelta(minutes=10)


async def test_a_limit_of_the_account_costs_no_attempt(from_our_domain: MailHarness, our_database: Database) -> None:
    for address in ("alice@example.org", "bob@example.org", "carol@example.org"):
        from_our_domain.ask_for_code(parse_email(address))
    with MailService("resend") as service:
        limited = Answered(429, {"name": "rate_limit_exceeded"}, {"Retry-After": "0.05"})
        service.answer(*[limited] * 3)
        async with delivering(from_our_domain, our_database, http_backend(service)) as under_way:
            await under_way.worker.until(lambda: from_our_domain.outbox.backlog().count == 0)
    assert len(service.mails) == 3
    assert {entry.attempts for entry in OutboxEntry.select()} == {1}
