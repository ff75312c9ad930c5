"""Health status: cheap, and never waiting forever."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from peewee import Database

from regsvc.core.errors import DatabaseUnavailable
from regsvc.database.engine import Worker
from regsvc.database.models import OutboxEntry
from regsvc.notifications.mail.transport import mail_retry_policy
from regsvc.notifications.outbox import Backlog, Outbox
from regsvc.runtime.health import BridgeState, Health, InstallationWatch, WaitingCounts
from regsvc.runtime.reload import PendingRestart
from regsvc.sync.report import SyncReport
from regsvc.users.gates import UNSETTLED, Gates
from tests.support.mail_parts import ALICE
from tests.support.manual_clock import ManualClock

NO_FILES = InstallationWatch(Path(), None)


class CountedOutbox(Outbox):
    """An outbox that counts its queries, and blocks them until the test allows an answer."""

    def __init__(self, now: ManualClock) -> None:
        super().__init__(now, "mail", mail_retry_policy(max_attempts=3))
        self.asked = 0
        self.was_asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def backlog(self) -> Backlog:
        self.asked += 1
        self.was_asked.set()
        assert self.may_answer.wait(10)
        return super().backlog()


class NoSync:
    """A sync that has not run yet, or no more."""

    last_report: SyncReport | None = None
    seconds_since_run = 0.0
    stands_still = False
    has_held_back_changes = False
    list_report = None


@pytest.fixture
def outbox(clock: ManualClock) -> CountedOutbox:
    return CountedOutbox(clock)


@pytest.fixture
def worker(our_database: Database) -> Iterator[Worker]:
    worker = Worker(our_database, 2)
    worker.is_open = True
    yield worker
    worker.close()


@pytest.fixture
def health(worker: Worker, outbox: CountedOutbox, clock: ManualClock) -> Health:
    sync: Any = NoSync()
    return Health(
        worker,
        outbox,
        sync,
        clock,
        PendingRestart(),
        NO_FILES,
        Gates(True, lambda: False),
        timeout=timedelta(seconds=5),
    )


async def test_many_who_ask_share_one_look(health: Health, outbox: CountedOutbox) -> None:
    loop = asyncio.get_running_loop()
    moment = loop.time()
    loop.time = lambda: moment  # type: ignore[method-assign]  # however slow the machine, it is the same second
    told = await asyncio.gather(*(health.status() for _caller in range(50)))
    told = [*told, await health.status()]

    assert outbox.asked == 1
    assert all(status.is_ready for status in told)


def test_a_clock_that_was_set_back_makes_no_negative_age(
    health: Health, outbox: CountedOutbox, clock: ManualClock
) -> None:
    outbox.put("approved", ALICE, "en")
    clock.advance(minutes=-7)
    assert asyncio.run(health.status()).oldest_mail_age == timedelta(0)


async def test_a_sync_that_stands_still_tells_nothing_of_the_bridge(
    health: Health, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoSync, "last_report", SyncReport(started_at=clock(), is_enabled=True))
    assert (await health.status()).bridge is BridgeState.UP
    monkeypatch.setattr(NoSync, "stands_still", True)
    assert (await health.status()).bridge is BridgeState.UNKNOWN


async def test_a_database_that_does_not_answer_counts_as_away(
    worker: Worker, outbox: CountedOutbox, clock: ManualClock
) -> None:
    sync: Any = NoSync()
    health = Health(
        worker,
        outbox,
        sync,
        clock,
        PendingRestart(),
        NO_FILES,
        Gates(False, lambda: False),
        timeout=timedelta(milliseconds=50),
    )
    outbox.may_answer.clear()
    try:
        statuses = [await health.status(), await health.status()]
        assert await asyncio.to_thread(outbox.was_asked.wait, 10)  # on a busy machine only after the time-out
    finally:
        outbox.may_answer.set()
    for status in statuses:
        assert isinstance(status.refusal, DatabaseUnavailable)
        assert status.refusal.retry_after
        assert (status.waiting_mails, status.oldest_mail_age) == (None, None)
        assert status.bridge is BridgeState.OFF
    assert outbox.asked == 1, "the second waited for the same look"


def test_a_table_that_is_gone_is_told_and_is_no_crash(
    health: Health, our_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    our_database.drop_tables([OutboxEntry])
    status = asyncio.run(health.status())
    assert isinstance(status.refusal, DatabaseUnavailable)
    assert "the database answered unexpectedly" in caplog.text


async def test_waiting_work_is_counted_once_a_minute_and_unknown_without_a_database(
    health: Health, worker: Worker
) -> None:
    worker.is_open = False
    found = [await health.waiting_work()]
    worker.is_open = True
    found += await asyncio.gather(*(health.waiting_work() for _scraper in range(3)))
    worker.is_open = False
    assert [*found, await health.waiting_work()] == [None, *[WaitingCounts(0, 0, 0, dict.fromkeys(UNSETTLED, 0))] * 4]
