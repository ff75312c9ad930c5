"""The outbox: enqueued with the cause, delivered at least once and in order, or visibly given up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from peewee import Database

from regsvc.core.email_address import EmailAddress
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications.mail.renderer import recipient_of
from regsvc.notifications.mail.transport import mail_retry_policy
from regsvc.notifications.outbox import Backlog, Outbox, Recipient
from regsvc.notifications.webhook import WEBHOOK_RETRY_POLICY
from tests.support.database_fixtures import InParallel, MakeUser
from tests.support.mail_parts import ALICE, BOB, MailHarness, rows_of
from tests.support.manual_clock import ManualClock


@pytest.fixture
def outbox(our_database: Database, clock: ManualClock) -> Outbox:
    return MailHarness(our_database, clock).outbox  # gives up after three attempts


def test_what_was_put_is_claimed(outbox: Outbox) -> None:
    outbox.put("approved", ALICE, "zh", user_id=7, row_id=8)
    [mail] = outbox.claim_due(10)
    assert (
        mail.template,
        recipient_of(mail),
        mail.language,
        mail.user_id,
        mail.row_id,
        mail.link_id,
        mail.attempts,
    ) == ("approved", ALICE, "zh", 7, 8, None, 1)


def test_a_batch_is_written_at_its_end_and_in_order(outbox: Outbox) -> None:
    with outbox.batched():
        outbox.put("approved", ALICE, "en")
        outbox.put("rejected", BOB, "en")
        assert OutboxEntry.select().count() == 0
    assert [entry.template for entry in OutboxEntry.select().order_by(OutboxEntry.id)] == ["approved", "rejected"]


# R42
def test_a_promise_goes_with_its_cause(outbox: Outbox, our_database: Database) -> None:
    with our_database.atomic() as transaction:
        outbox.put("approved", ALICE, "en")
        transaction.rollback()
    assert outbox.claim_due(10) == []


def test_a_mail_that_waits_for_its_next_attempt_holds_the_later_ones(outbox: Outbox, clock: ManualClock) -> None:
    outbox.put("rejected", ALICE, "en")
    outbox.put("approved", ALICE, "en")
    [first] = outbox.claim_due(10)
    outbox.record_failure(first, "451 later", is_final=False)
    assert outbox.claim_due(10) == []
    clock.advance(minutes=1)
    [again] = outbox.claim_due(10)
    assert (again.id, again.attempts) == (first.id, 2)


def test_nothing_claimed_is_claimed_twice(outbox: Outbox, our_database: Database, in_parallel: InParallel) -> None:
    for number in range(30):
        outbox.put("approved", EmailAddress(f"b{number}@x.org", f"b{number}@x.org"), "en")

    def claim() -> list[int]:
        with our_database.atomic():
            return [mail.id for mail in outbox.claim_due(10)]

    claimed = [mail_id for ids in in_parallel(claim, 8) for mail_id in ids]
    assert len(claimed) == len(set(claimed))
    assert len(claimed) + len(outbox.claim_due(100)) == 30


def test_what_a_crashed_process_claimed_is_due_again(outbox: Outbox, clock: ManualClock) -> None:
    outbox.put("approved", ALICE, "en")
    outbox.claim_due(10)
    clock.advance(minutes=2, seconds=59)
    assert outbox.claim_due(10) == []
    clock.advance(seconds=1)
    assert [mail.attempts for mail in outbox.claim_due(10)] == [2]


def test_attempts_come_further_and_further_apart(our_database: Database, clock: ManualClock) -> None:
    outbox = Outbox(clock, "mail", mail_retry_policy(max_attempts=20))
    outbox.put("approved", ALICE, "en")
    waits = []
    for attempt in range(1, 20):
        [mail] = outbox.claim_due(1)
        assert mail.attempts == attempt
        outbox.record_failure(mail, "451 later", is_final=False)
        waits.append(OutboxEntry.get().next_attempt_at - clock())
        clock.advance(seconds=waits[-1].total_seconds())
    assert timedelta(seconds=24) <= waits[0] <= timedelta(seconds=36)
    assert sum(waits[:7], timedelta()) > timedelta(hours=2)  # the eight attempts of the default config
    assert max(waits) <= timedelta(hours=4) * 1.2


# R42
def test_after_the_last_attempt_it_is_given_up_and_seen(
    outbox: Outbox, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.put("approved", ALICE, "en")
    for attempt in range(3):
        [mail] = outbox.claim_due(1)
        outbox.record_failure(mail, f"451 not the {attempt}. time", is_final=False)
        clock.advance(hours=1)
    assert outbox.claim_due(1) == []
    entry = OutboxEntry.get()
    assert (entry.outcome, entry.next_attempt_at, entry.last_error) == ("failed", None, "451 not the 2. time")
    assert entry.done_at is not None
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("(approved) given up after 3 attempts: 451 not the 2. time")


def test_a_final_answer_ends_it_at_once_and_is_logged_without_the_address(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.put("approved", ALICE, "en")
    [mail] = outbox.claim_due(1)
    outbox.record_failure(mail, "550 no mailbox alice, <Alice@example.org> " + "x" * 1000, is_final=True)
    [record] = caplog.records
    assert "given up after 1 attempt: 550 no mailbox …, <…> xxx" in record.getMessage()
    assert len(record.getMessage()) < 400
    entry = OutboxEntry.get()
    assert entry.outcome == "failed"
    assert entry.last_error is not None
    assert len(entry.last_error) == 500


def test_an_outage_costs_no_attempts(outbox: Outbox) -> None:
    outbox.put("approved", ALICE, "en")
    for outage in range(10):
        [mail] = outbox.claim_due(1)
        assert mail.attempts == 1, outage
        outbox.release(mail, "connection refused")


def test_who_waits_for_a_code_is_not_behind_all_others(outbox: Outbox, clock: ManualClock) -> None:
    """Alice gets what was sent to her before first. Bob, who waits for nothing, keeps his place."""
    with outbox.batched():
        for number in range(5_000):
            outbox.put("approved", EmailAddress(f"p{number}@x.org", f"p{number}@x.org"), "en")
        outbox.put("rejected", ALICE, "en")
        outbox.put("approved", BOB, "en")
    clock.advance(seconds=1)
    outbox.put("verification_code", ALICE, "en")
    outbox.put("reset_password", EmailAddress("c@x.org", "c@x.org"), "en")
    claimed: list[tuple[str, str]] = []
    while len(claimed) < 6:
        [mail] = outbox.claim_due(1)
        claimed.append((mail.template, mail.recipient_key))
        outbox.record_sent(mail)
    assert claimed == [
        ("rejected", ALICE.key),
        ("verification_code", ALICE.key),
        ("reset_password", "c@x.org"),
        *(("approved", f"p{number}@x.org") for number in range(3)),
    ]
    assert outbox.claim_due(4, urgent_only=True) == []


@pytest.mark.parametrize(("template", "seconds"), [("verification_code", 5), ("approved", 30)])
def test_a_code_is_tried_again_sooner(outbox: Outbox, clock: ManualClock, template: str, seconds: int) -> None:
    outbox.put(template, ALICE, "en")
    [mail] = outbox.claim_due(1)
    wait = outbox.record_failure(mail, "451 later")
    assert wait is not None
    assert 0.8 * seconds <= wait.total_seconds() <= 1.2 * seconds


# R80
@pytest.mark.parametrize("is_bob_sent_his", [True, False])
def test_what_is_withheld_waits_half_its_age_and_ends_only_where_others_are_sent(
    outbox: Outbox, clock: ManualClock, is_bob_sent_his: bool
) -> None:
    outbox.put("approved", ALICE, "en")
    outbox.put("approved", BOB, "en")
    enqueued_at, waits = clock(), []
    alices, bobs = outbox.claim_due(10)
    if is_bob_sent_his:
        outbox.record_sent(bobs)
    while clock() - enqueued_at < timedelta(days=3):
        wait = outbox.withhold(alices, "550 5.4.5 daily limit")
        assert wait is not None
        waits.append(wait)
        assert OutboxEntry.get_by_id(alices.id).attempts == 0
        assert alices.id not in {mail.id for mail in outbox.claim_due(10)}
        clock.advance(seconds=wait.total_seconds() + 1)
        alices = next(mail for mail in outbox.claim_due(10) if mail.id == alices.id)
    assert timedelta(seconds=24) <= waits[0] <= timedelta(seconds=36)
    assert timedelta(minutes=24) <= waits[-1] <= timedelta(minutes=36)
    assert (outbox.withhold(alices, "550 5.4.5 daily limit") is None) == is_bob_sent_his
    assert OutboxEntry.get_by_id(alices.id).outcome == ("failed" if is_bob_sent_his else None)


def test_it_tells_how_many_wait_and_since_when(outbox: Outbox, clock: ManualClock) -> None:
    assert outbox.backlog() == Backlog(0, None)
    outbox.put("approved", ALICE, "en")
    promised_at = clock()
    clock.advance(minutes=1)
    outbox.put("approved", BOB, "en")
    assert outbox.backlog() == Backlog(2, promised_at)
    for mail in outbox.claim_due(10):
        outbox.record_sent(mail)
    assert outbox.backlog() == Backlog(0, None)


@contextmanager
def explained(database: Database) -> Iterator[list[str]]:
    """Collect how the database finds the rows of each statement meanwhile, in its own words."""
    plans: list[str] = []
    execute: Any = database.execute_sql
    explain = "EXPLAIN FORMAT=TRADITIONAL" if database.param == "%s" else "EXPLAIN QUERY PLAN"

    def record(sql: str, params: object = None) -> object:
        plans.append(str(execute(f"{explain} {sql}", params).fetchall()))
        return execute(sql, params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "execute_sql", record)
        yield plans


def test_a_long_queue_is_read_from_its_old_end_and_not_to_the_other(
    outbox: Outbox, our_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest is tried again later than the others, which does not make it younger."""
    monkeypatch.setattr("regsvc.notifications.outbox.MAX_COUNT", 3)
    promised_at = clock()
    outbox.put("approved", ALICE, "en")
    [oldest] = outbox.claim_due(10)
    outbox.record_failure(oldest, "451 later", retry_after=timedelta(hours=1))
    for _mail in range(4):
        clock.advance(minutes=1)
        outbox.put("approved", BOB, "en")
    with explained(our_database) as plans:
        assert outbox.backlog() == Backlog(3, promised_at)
    [plan] = plans
    assert "regsvc_outbox_outcome" in plan
    assert "filesort" not in plan
    assert "TEMP B-TREE" not in plan


def test_one_statement_tells_whether_anything_is_due(
    our_database: Database, outbox: Outbox, clock: ManualClock
) -> None:
    webhook = Outbox(clock, "webhook", WEBHOOK_RETRY_POLICY)
    found = [outbox.is_any_due()]
    webhook.put("user.approved", Recipient("webhook", "webhook"), "en")
    found.append(outbox.is_any_due())
    webhook.claim_due(1)  # by a process that is killed now
    found.append(outbox.is_any_due())
    clock.advance(seconds=webhook.claim_period.total_seconds())
    with explained(our_database) as plans:
        found.append(outbox.is_any_due())
    assert found == [False, True, False, True]
    [plan] = plans
    assert "regsvc_outbox_next_attempt_at" in plan


def test_a_forgotten_password_writes_the_same_for_everybody(
    our_database: Database, clock: ManualClock, alice: User
) -> None:
    mail_harness = MailHarness(our_database, clock)
    mail_harness.mail_queue.send_to(ALICE, "en", "reset_password", user_id=alice.id)
    mail_harness.mail_queue.send_to(BOB, "en", "reset_password", user_id=None)
    known, unknown = rows_of(OutboxEntry)
    different = {name for name in known if known[name] != unknown[name]}
    assert different == {"id", "recipient", "recipient_key", "user_id"}


def test_who_has_no_email_is_told_nothing(our_database: Database, clock: ManualClock, make_user: MakeUser) -> None:
    mail_harness = MailHarness(our_database, clock)
    carol = make_user("Carol", email=None)
    mail_harness.mail_queue.send(carol, "rejected", mail_harness.review(carol, "reject"))
    assert OutboxEntry.select().count() == 0
