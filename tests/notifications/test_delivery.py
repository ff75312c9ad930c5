"""Background delivery of mails: at least once and in order, whatever the mail server does meanwhile."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from threading import Event

import pytest
from peewee import Database, OperationalError

from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import DatabaseUnavailable
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications import delivery
from regsvc.notifications.mail.backends import NoMailBackend, SmtpAccount, SmtpBackend
from tests.support.mail_parts import ALICE, BOB, MailHarness, delivering
from tests.support.manual_clock import ManualClock
from tests.support.peers.smtp import MailServer
from tests.support.statements import recorded_statements
from tests.support.watched_worker import WAIT

pytestmark = pytest.mark.one_database("sqlite")

Condition = Callable[[], bool]


@pytest.fixture
def mail_harness(our_database: Database, clock: ManualClock) -> MailHarness:
    return MailHarness(our_database, clock)


class WatchedBackend(SmtpBackend):
    """A real backend that counts the SMTP sessions begun and ended."""

    def __init__(self, server: MailServer) -> None:
        super().__init__("companion@example.org", SmtpAccount(server.host, server.port, "none"))
        self.begun = 0
        self.ended = 0
        self.changed = asyncio.Condition()

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        await self._count(begun=1)
        try:
            await super().send(message, recipient)
        finally:
            await self._count(ended=1)

    async def until(self, is_so: Condition) -> None:
        async with asyncio.timeout(WAIT), self.changed:
            await self.changed.wait_for(is_so)

    async def _count(self, begun: int = 0, ended: int = 0) -> None:
        async with self.changed:
            self.begun += begun
            self.ended += ended
            self.changed.notify_all()


def outcome_of(template: str) -> str | None:
    """The outcome of the only mail of this kind."""
    outcome: str | None = OutboxEntry.get(OutboxEntry.template == template).outcome
    return outcome


@pytest.mark.every_database
async def test_a_promised_mail_arrives_and_no_log_tells_its_code(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async with delivering(mail_harness, our_database, WatchedBackend(smtp)) as under_way:
        code = mail_harness.ask_for_code()
        under_way.delivery.wake()
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org")
    assert code in smtp.letters[0].text
    ours = [record.getMessage() for record in caplog.records if record.name != "mail.log"]  # the mail server's
    assert not [message for message in ours if code in message]
    assert outcome_of("verification_code") == "sent"


@pytest.mark.every_database
async def test_each_recipients_mails_arrive_in_order(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, alice: User
) -> None:
    templates = ["rejected", "approved", "banned", "unbanned"]
    review_id = mail_harness.review(alice, "approve")
    for template in templates:
        mail_harness.outbox.put(template, ALICE, "en", user_id=alice.id, row_id=review_id)
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)):
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org", len(templates))
    subjects = [letter.subject for letter in smtp.letters_to("Alice@example.org")]
    assert [subject.split()[-1] for subject in subjects] == ["Craft", "Alice", "banned", "again"]
    assert mail_harness.outbox.backlog().oldest_at is None


async def test_a_slow_recipient_holds_nobody_up_but_himself(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer
) -> None:
    smtp.postpone("Bob@example.org")
    mail_harness.ask_for_code(BOB)
    mail_harness.ask_for_code(ALICE)
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)):
        await asyncio.to_thread(smtp.wait_for_refusal, "Bob@example.org")
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org")


# R44
async def test_an_outage_loses_nothing(
    mail_harness: MailHarness,
    our_database: Database,
    smtp: MailServer,
    alice: User,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "regsvc")
    recipients = [parse_email(f"player{number}@example.org") for number in range(6)]
    for recipient in recipients:
        for template in ("rejected", "approved"):
            mail_harness.outbox.put(
                template, recipient, "en", user_id=alice.id, row_id=mail_harness.review(alice, template)
            )
    smtp.stop()
    backend = WatchedBackend(smtp)
    async with delivering(mail_harness, our_database, backend) as under_way:
        await backend.until(lambda: backend.ended >= 6)
        clock.advance(hours=1)
        smtp.start()
        under_way.delivery.wake()
        for recipient in recipients:
            await asyncio.to_thread(smtp.wait_for, recipient.envelope, 2)
    for recipient in recipients:
        subjects = [letter.subject for letter in smtp.letters_to(recipient.envelope)]
        assert subjects == ["Your application to join Example Craft", "Welcome to Example Craft, Alice"]
    assert {entry.attempts for entry in OutboxEntry.select()} == {1}
    ours = [record.levelname for record in caplog.records if record.name.startswith("regsvc")]
    assert ours == ["WARNING", "INFO"]


# R44
@pytest.mark.parametrize("step", ["render", "record_sent"])
async def test_a_database_that_is_away_for_a_moment_delays_a_mail_by_no_claim_and_repeats_none(
    mail_harness: MailHarness,
    our_database: Database,
    smtp: MailServer,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """The harness's clock stands still, so that no claim ends."""
    monkeypatch.setattr(delivery, "_DATABASE_POLL_INTERVAL", timedelta(milliseconds=20))
    part: object = mail_harness.renderer if step == "render" else mail_harness.outbox
    does_step, outages = getattr(part, step), iter([DatabaseUnavailable()] * 3)

    def be_away_at_first(message: OutboxEntry) -> object:
        for outage in outages:
            raise outage
        return does_step(message)

    monkeypatch.setattr(part, step, be_away_at_first)
    mail_harness.ask_for_code()
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)) as under_way:
        await under_way.worker.until(lambda: outcome_of("verification_code") == "sent")
    assert len(smtp.letters) == 1


@pytest.mark.parametrize("is_back_in_time", [True, False])
async def test_a_stop_during_an_outage_repeats_no_mail(
    mail_harness: MailHarness,
    our_database: Database,
    smtp: MailServer,
    monkeypatch: pytest.MonkeyPatch,
    clock: ManualClock,
    is_back_in_time: bool,
) -> None:
    pause = timedelta(milliseconds=20) if is_back_in_time else timedelta(seconds=WAIT)
    monkeypatch.setattr(delivery, "_DATABASE_POLL_INTERVAL", pause)
    record_sent, is_away, is_back = mail_harness.outbox.record_sent, Event(), Event()

    def be_away_at_first(message: OutboxEntry) -> None:
        is_away.set()
        if not is_back.is_set():
            raise DatabaseUnavailable
        record_sent(message)

    monkeypatch.setattr(mail_harness.outbox, "record_sent", be_away_at_first)
    mail_harness.ask_for_code()
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)) as under_way:
        await asyncio.to_thread(is_away.wait, WAIT)
        under_way.delivery.stop()
        is_back.set()
    assert len(smtp.letters) == 1
    entry = OutboxEntry.get()
    if is_back_in_time:
        assert entry.outcome == "sent"
    else:
        assert (entry.attempts, entry.next_attempt_at) == (1, clock() + timedelta(minutes=3)), "it is still claimed"


async def test_what_expired_in_an_outage_is_not_mailed(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, alice: User, clock: ManualClock
) -> None:
    mail_harness.ask_for_code()
    clock.advance(minutes=15)
    mail_harness.outbox.put("approved", ALICE, "en", user_id=alice.id, row_id=mail_harness.review(alice, "approve"))
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)):
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org")
    assert [letter.subject for letter in smtp.letters] == ["Welcome to Example Craft, Alice"]
    assert outcome_of("verification_code") == "dropped"


async def test_a_postponed_mail_is_tried_again(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, clock: ManualClock
) -> None:
    smtp.postpone("Alice@example.org", times=1)
    mail_harness.ask_for_code()
    backend = WatchedBackend(smtp)
    async with delivering(mail_harness, our_database, backend) as under_way:
        await under_way.worker.until(lambda: bool(OutboxEntry.get().last_error))
        clock.advance(minutes=1)
        under_way.delivery.wake()
        await backend.until(lambda: backend.ended == 2)
    assert len(smtp.letters) == 1
    assert OutboxEntry.get().attempts == 2


async def test_a_refused_mail_is_given_up_at_once_and_says_no_secret(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    smtp.refuse("Alice@example.org")
    code = mail_harness.ask_for_code()
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)):
        await asyncio.to_thread(smtp.wait_for_refusal, "Alice@example.org")
    assert outcome_of("verification_code") == "failed"
    assert OutboxEntry.get().last_error == "550 5.1.1 No such mailbox"
    assert code not in caplog.text


async def test_a_server_that_quotes_the_code_does_not_get_it_into_our_table(
    mail_harness: MailHarness, our_database: Database
) -> None:
    code = mail_harness.ask_for_code()

    async def quote(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accepts everything but the mail itself, whose last line it repeats."""
        writer.write(b"220 mail.test\r\n")
        while not (line := await reader.readline()).startswith(b"DATA"):
            writer.write(b"250 OK\r\n")
        writer.write(b"354 go on\r\n")
        while line.rstrip() != b".":
            line = await reader.readline()
        writer.write(f"554 spam: {code}\r\n".encode())
        while await reader.readline():
            writer.write(b"250 OK\r\n")
        writer.close()

    async with await asyncio.start_server(quote, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        backend = SmtpBackend("companion@example.org", SmtpAccount("127.0.0.1", port, "none"))
        async with delivering(mail_harness, our_database, backend) as under_way:
            await under_way.worker.until(lambda: bool(OutboxEntry.get().last_error))
    assert OutboxEntry.get().last_error == "554 spam: …"


async def test_an_unknown_address_gets_no_mail(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, alice: User
) -> None:
    mail_harness.mail_queue.send_to(BOB, "en", "reset_password", user_id=None)
    mail_harness.mail_queue.send_to(ALICE, "en", "reset_password", user_id=alice.id)
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)):
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org")
    assert smtp.letters_to("Bob@example.org") == []
    outcomes = {entry.recipient_key: entry.outcome for entry in OutboxEntry.select()}
    assert outcomes == {ALICE.key: "sent", BOB.key: "dropped"}


@pytest.mark.every_database
async def test_what_records_a_mail_claims_and_renders_the_next(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, alice: User
) -> None:
    """Statements are recorded on MariaDB only: of each mail a claim, two rows to render, its end, and another look."""
    review_id, mails = mail_harness.review(alice, "approve"), 5
    for _mail in range(mails):
        mail_harness.outbox.put("approved", ALICE, "en", user_id=alice.id, row_id=review_id)
    with recorded_statements() as statements:
        async with delivering(mail_harness, our_database, WatchedBackend(smtp)) as under_way:
            await asyncio.to_thread(smtp.wait_for, "Alice@example.org", mails)
    assert {entry.outcome for entry in OutboxEntry.select()} == {"sent"}
    assert under_way.worker.calls == 1 + mails
    assert len(statements) <= 1 + 5 * mails, "\n".join(statements)


@pytest.mark.every_database
async def test_a_failed_look_for_the_next_mail_repeats_none(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a query that an administrator has killed, just after a mail was sent."""
    look, looks, records = mail_harness.outbox._list_due, iter(["first", "killed"]), list[int]()

    def be_killed_once(limit: int, urgent_only: bool) -> list[OutboxEntry]:
        if next(looks, None) == "killed":
            raise OperationalError(1317, "Query execution was interrupted")
        return look(limit, urgent_only)

    monkeypatch.setattr(mail_harness.outbox, "_list_due", be_killed_once)
    monkeypatch.setattr(mail_harness.outbox, "_on_finished", lambda message, _outcome: records.append(message.id))
    mail_harness.ask_for_code(ALICE)
    mail_harness.outbox.put("already_registered", ALICE, "en")
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)) as under_way:
        await under_way.worker.until(lambda: mail_harness.outbox.backlog().oldest_at is None)
    assert [(entry.outcome, entry.attempts) for entry in OutboxEntry.select()] == [("sent", 1), ("dropped", 1)]
    assert len(smtp.letters) == 1
    assert len(records) == 2


async def test_a_stop_waits_for_the_mail_under_way(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer
) -> None:
    smtp.hold()
    mail_harness.ask_for_code()
    backend = WatchedBackend(smtp)
    async with delivering(mail_harness, our_database, backend) as under_way:
        await backend.until(lambda: backend.begun == 1)
        under_way.delivery.stop()
        smtp.release()
    assert outcome_of("verification_code") == "sent"
    assert len(smtp.letters) == 1


async def test_a_stop_does_not_wait_for_ever(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, clock: ManualClock
) -> None:
    smtp.hold()
    mail_harness.ask_for_code()
    backend = WatchedBackend(smtp)
    async with delivering(mail_harness, our_database, backend):
        await backend.until(lambda: backend.begun == 1)
    entry = OutboxEntry.get()
    assert (entry.outcome, entry.attempts, entry.next_attempt_at) == (None, 0, clock())


async def test_with_mail_off_nothing_piles_up(mail_harness: MailHarness, our_database: Database) -> None:
    mail_harness.ask_for_code()
    async with delivering(mail_harness, our_database, NoMailBackend()) as under_way:
        await under_way.worker.until(lambda: mail_harness.outbox.backlog().oldest_at is None)
    assert outcome_of("verification_code") == "dropped"


async def test_a_bug_in_one_mail_stops_no_other(
    mail_harness: MailHarness, our_database: Database, smtp: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    mail_harness.outbox.put("nobody_wrote_this", BOB, "en")
    mail_harness.ask_for_code(ALICE)
    async with delivering(mail_harness, our_database, WatchedBackend(smtp)):
        await asyncio.to_thread(smtp.wait_for, "Alice@example.org")
    entry = OutboxEntry.get(OutboxEntry.template == "nobody_wrote_this")
    assert (entry.outcome, entry.attempts, entry.last_error) == (None, 1, "internal error: KeyError")
    assert "KeyError" in caplog.text
