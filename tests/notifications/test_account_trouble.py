"""A mail server that refuses our account, or just says so: no mail is lost, and nobody's reply holds up the others."""

import asyncio
from datetime import timedelta
from email.message import EmailMessage

import pytest
from peewee import Database

from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications import delivery
from regsvc.notifications.mail.backends import SmtpAccount, SmtpBackend
from tests.support.mail_parts import ALICE, BOB, MailHarness, delivering
from tests.support.manual_clock import ManualClock
from tests.support.peers.smtp import HANG_UP, MailServer, Stage

pytestmark = pytest.mark.one_database("sqlite")

DAILY_LIMIT = "550 5.4.5 Daily user sending limit exceeded. o65sm25351206pga.71 - gsmtp"
SOON = 10.0  # seconds
PLAYERS = [parse_email(f"player{number}@example.org") for number in range(5)]


@pytest.fixture
def mail_harness(our_database: Database, clock: ManualClock) -> MailHarness:
    return MailHarness(our_database, clock)


class CountingBackend(SmtpBackend):
    """A real backend that counts attempts."""

    def __init__(self, server: MailServer) -> None:
        super().__init__("companion@example.org", SmtpAccount(server.host, server.port, "none"))
        self.attempts = 0
        self.has_begun = asyncio.Event()

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        self.attempts += 1
        self.has_begun.set()
        await super().send(message, recipient)


def approve(mail_harness: MailHarness, user: User, to: EmailAddress) -> None:
    """Enqueue a mail that nobody waits for on a page."""
    mail_harness.outbox.put("approved", to, "en", user_id=user.id, row_id=mail_harness.review(user, "approve"))


def count_refused() -> int:
    return OutboxEntry.select().where(OutboxEntry.last_error.is_null(False)).count()


# R80
@pytest.mark.parametrize(
    ("stage", "reply"),
    [
        ("DATA", DAILY_LIMIT),
        ("RCPT", "452 4.5.3 Your message has too many recipients, limit exceeded"),
        ("EHLO", "421 4.7.0 Try again later, closing connection"),
        ("MAIL", "550 5.7.60 Client does not have permissions to send as this sender"),
        ("DATA", "454 Throttling failure: Daily message quota exceeded."),
        ("RCPT", "421 4.4.5 Server busy, try again later."),
        ("DATA", "451 4.3.0 Temporary local problem"),
        ("DATA", "554 Transaction failed"),
        ("DATA", HANG_UP),
    ],
)
async def test_five_mails_arrive_after_the_server_refused_our_account(
    mail_harness: MailHarness,
    our_database: Database,
    smtp: MailServer,
    alice: User,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    stage: Stage,
    reply: str,
) -> None:
    smtp.answer_all(stage, reply)
    for player in PLAYERS:
        approve(mail_harness, alice, player)
    backend, pause = CountingBackend(smtp), timedelta(microseconds=100)
    async with delivering(mail_harness, our_database, backend, first_pause=pause) as under_way:
        for attempts in (4, 8, 12):
            await under_way.worker.until(lambda: backend.attempts >= attempts and count_refused() >= 4)  # noqa: B023
            clock.advance(hours=4)
            under_way.delivery.wake()
        smtp.answer_all(stage, None)
        clock.advance(hours=4)
        under_way.delivery.wake()
        for player in PLAYERS:
            await asyncio.to_thread(smtp.wait_for, player.envelope)
        await under_way.worker.until(lambda: OutboxEntry.select().where(OutboxEntry.outcome == "sent").count() == 5)
    assert len(smtp.letters) == len(PLAYERS)
    assert max(entry.attempts for entry in OutboxEntry.select()) <= 2, "however often it was refused"
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, "one line for one reply"
    assert reply[4:30] in warnings[0]
    assert "player" not in warnings[0]


# R60, R80
async def test_a_recipient_who_alleges_it_delays_no_code(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, alice: User
) -> None:
    """Mallory's own mail server writes that our daily limit is exceeded, to many addresses and in many mails."""
    mallorys = [parse_email(f"m{number}@mallory.example") for number in range(12)]
    for mallory in mallorys:
        smtp.answer(mallory.envelope, DAILY_LIMIT)
        mail_harness.ask_for_code(mallory)
    approve(mail_harness, alice, parse_email("m-0@mallory.example"))
    smtp.answer("m-0@mallory.example", DAILY_LIMIT)
    an_hour = timedelta(hours=1)
    async with delivering(mail_harness, our_database, CountingBackend(smtp), first_pause=an_hour) as under_way:
        await under_way.worker.until(lambda: count_refused() == len(mallorys) + 1)
        mail_harness.ask_for_code(ALICE)
        under_way.delivery.wake()
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org", timeout=SOON)
    assert {entry.attempts for entry in OutboxEntry.select().where(OutboxEntry.outcome.is_null())} == {0}


async def test_a_recipient_who_alleges_it_delays_other_mails_for_a_pause_alone(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, alice: User
) -> None:
    mallory = parse_email("m@mallory.example")
    smtp.answer(mallory.envelope, DAILY_LIMIT)
    approve(mail_harness, alice, mallory)
    async with delivering(mail_harness, our_database, CountingBackend(smtp)) as under_way:
        await under_way.worker.until(lambda: count_refused() == 1)
        for _mail in range(2):
            approve(mail_harness, alice, BOB)
        under_way.delivery.wake()
        await asyncio.to_thread(smtp.wait_for, "Bob@example.org", 2, timeout=SOON)
    assert smtp.refused[mallory.envelope] == 1, "another mail was the next to be tried"


async def test_many_who_allege_it_delay_other_mails_for_short_pauses(
    mail_harness: MailHarness,
    our_database: Database,
    smtp: MailServer,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pauses of a true outage would grow to a minute for each of Mallory's addresses."""
    monkeypatch.setattr(delivery, "_LONGEST_ALLEGED_PAUSE", timedelta(milliseconds=1))
    for number in range(20):
        mallory = parse_email(f"m{number}@mallory.example")
        smtp.answer(mallory.envelope, DAILY_LIMIT)
        approve(mail_harness, alice, mallory)
    approve(mail_harness, alice, BOB)
    an_hour = timedelta(hours=1)
    async with delivering(mail_harness, our_database, CountingBackend(smtp), first_pause=an_hour):
        await asyncio.to_thread(smtp.wait_for, "Bob@example.org", timeout=SOON)


async def test_whoever_alleges_it_fills_no_log(
    mail_harness: MailHarness,
    our_database: Database,
    smtp: MailServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = ["".join(chr(ord("a") + int(digit)) for digit in str(number)) for number in range(100, 130)]
    for word in words:
        mallory = parse_email(f"{word}@mallory.example")
        smtp.answer(mallory.envelope, f"450 {word} {mallory.envelope} says {'x' * 400}")
        mail_harness.ask_for_code(mallory)
    async with delivering(mail_harness, our_database, CountingBackend(smtp)) as under_way:
        await under_way.worker.until(lambda: count_refused() == len(words))
    ours = [record for record in caplog.records if record.name.startswith("regsvc")]
    assert len(ours) == 20
    lines = [record.getMessage() for record in ours]
    assert not [line for line in lines if "mallory" in line]
    assert max(map(len, lines)) < 400


async def test_an_outage_with_another_reason_is_another_line(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    mail_harness.ask_for_code(ALICE)
    smtp.stop()
    backend = CountingBackend(smtp)
    async with delivering(mail_harness, our_database, backend) as under_way:
        await under_way.worker.until(lambda: backend.attempts >= 2)
        smtp.answer_all("EHLO", "421 4.3.2 closed for maintenance")
        smtp.start()
        await under_way.worker.until(lambda: "closed" in str(OutboxEntry.get().last_error))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 2
    assert "nothing listens" in lines[0]
    assert "closed for maintenance" in lines[1]


async def test_a_code_is_tried_again_within_seconds(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, clock: ManualClock
) -> None:
    smtp.postpone("Alice@example.org", times=1)
    mail_harness.ask_for_code(ALICE)
    async with delivering(mail_harness, our_database, CountingBackend(smtp)) as under_way:
        await under_way.worker.until(lambda: count_refused() == 1)
        clock.advance(seconds=6)
        under_way.delivery.wake()
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org", timeout=SOON)


async def test_no_mail_is_sent_twice_because_the_clock_is_set_during_an_attempt(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, clock: ManualClock, alice: User
) -> None:
    smtp.hold()
    approve(mail_harness, alice, ALICE)
    backend = CountingBackend(smtp)
    async with delivering(mail_harness, our_database, backend) as under_way:
        await asyncio.wait_for(backend.has_begun.wait(), SOON)
        clock.advance(hours=2)
        under_way.delivery.wake()
        await under_way.worker.until(lambda: OutboxEntry.get().attempts == 2)
        smtp.release()
        await under_way.worker.until(lambda: OutboxEntry.get().outcome == "sent")
    assert backend.attempts == 1
