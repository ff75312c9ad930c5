"""R75: whatever the clock does, nothing is late by more than seconds."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from passlib.totp import TOTP
from peewee import Database

from regsvc.auth.second_factor import find_time_step, use_time_step
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core.errors import InvalidCode, Unauthorized
from regsvc.database.models import OutboxEntry
from regsvc.notifications.outbox import Outbox, Recipient
from regsvc.notifications.webhook import WEBHOOK_RETRY_POLICY
from regsvc.runtime.jobs import Job, JobRunner
from tests.support.manual_clock import ManualClock
from tests.support.programs import find_library
from tests.support.services import CALLER, PASSWORD, ServiceHarness
from tests.support.stack import Stack
from tests.support.watching import ask_until

LATE = 60.0
"""Seconds that a step may cost a busy machine; the smallest step is 7,200."""

HOURS, YEARS = timedelta(hours=2), timedelta(days=730)
BACK = pytest.mark.parametrize("step", [-HOURS, -YEARS], ids=str)
ALL = pytest.mark.parametrize("step", [HOURS, -HOURS, YEARS, -YEARS], ids=str)


def set_clock(services: ServiceHarness, step: timedelta) -> None:
    """Set the clock, and let the daemon's job notice it, which it does within seconds."""
    if step:
        services.app.clock.restart()  # what the test waited for is no step
    services.clock.advance(seconds=step.total_seconds())
    services.app.worker.run_here(services.app.follow_clock)


def issue_code(services: ServiceHarness) -> str:
    """Return Alice's code, which was mailed."""
    codes = services.app.codes
    row = codes.find_sendable(codes.issue("alice@example.org", "register", CALLER))
    assert row is not None
    codes.mark_sent(row.id)
    return codes.code_of(row)


def is_right(services: ServiceHarness, code: str) -> bool:
    try:
        services.app.codes.check("alice@example.org", "register", CodeOrProof(code), CALLER)
    except InvalidCode:
        return False
    return True


@ALL
def test_life_goes_on(services: ServiceHarness, step: timedelta) -> None:
    """Alice registers, is approved, banned for an hour and logs in again, before the step and after it."""
    for name in ("Alice", "Bob"):
        services.register(name)
        services.decide("approve", name)
        services.find_mailed_link()  # delivers what is due
        assert OutboxEntry.select().where(OutboxEntry.next_attempt_at.is_null(False)).count() == 0
        services.login(name, PASSWORD)
        services.decide("ban", name, expires_at=services.clock() + timedelta(hours=1))
        services.clock.advance(minutes=59)
        services.sync()
        assert services.user(name).status == "banned"
        services.clock.advance(minutes=1)
        services.sync()
        assert services.user(name).status == "approved"
        services.login(name, PASSWORD)
        set_clock(services, step)


@BACK
def test_a_code_lives_as_long_as_ever(services: ServiceHarness, step: timedelta) -> None:
    code = issue_code(services)
    set_clock(services, step)
    assert is_right(services, code)
    services.clock.advance(minutes=6)
    assert not is_right(services, code)


@BACK
@pytest.mark.parametrize("is_running", [True, False])
def test_a_mail_waits_as_long_as_ever(services: ServiceHarness, step: timedelta, *, is_running: bool) -> None:
    """Whether the companion runs as the clock is set, or is started afterwards."""
    services.register("Alice")
    services.decide("approve", "Alice")
    outbox = services.app.outbox
    [receipt] = outbox.claim_due(10)
    created_at = receipt.created_at
    assert outbox.record_failure(receipt, "451 try again later") is not None
    services.register("Bob")  # his receipt was never tried
    if not is_running:
        services.clock.advance(seconds=step.total_seconds())
        services.restart()
        services.app.start_clock()
        step = timedelta()
    set_clock(services, step)
    assert [mail.recipient for mail in services.app.outbox.claim_due(10)] == ["bob@example.org"]
    services.clock.advance(seconds=40)
    [again] = services.app.outbox.claim_due(10)
    assert (again.recipient, again.created_at) == ("alice@example.org", created_at), "it would be another Message-ID"


@pytest.mark.parametrize("kind", ["webhook", "rcon"])
def test_what_waits_is_not_given_up_for_its_age(our_database: Database, clock: ManualClock, kind: str) -> None:
    outbox = Outbox(clock, kind, WEBHOOK_RETRY_POLICY)
    outbox.put("user.approved", Recipient("webhook", "webhook"), "en")
    [call] = outbox.claim_due(1)
    outbox.record_failure(call, "HTTP 503")
    clock.advance(days=730)
    outbox.follow_clock(timedelta(days=730))
    clock.advance(minutes=1)
    [call] = outbox.claim_due(1)
    assert outbox.record_failure(call, "HTTP 503") is not None


@ALL
def test_two_daemons_may_follow_one_clock(our_database: Database, clock: ManualClock, step: timedelta) -> None:
    """Of two calls one was never tried, and one has failed; neither waits for the step, or claims a made-up age."""
    outbox = Outbox(clock, "webhook", WEBHOOK_RETRY_POLICY)
    for number in range(2):
        outbox.put("user.approved", Recipient("webhook", f"{number}"), "en")
    [call] = outbox.claim_due(1)
    assert outbox.record_failure(call, "HTTP 503") is not None
    began = clock()
    clock.advance(seconds=step.total_seconds())
    for _daemon in range(2):
        outbox.follow_clock(step)
    clock.advance(minutes=1)
    assert len(outbox.claim_due(2)) == 2
    if step > timedelta():
        assert {entry.created_at for entry in OutboxEntry.select()} == {began + step}


@BACK
def test_a_session_ends_in_its_time(services: ServiceHarness, step: timedelta) -> None:
    services.approved("Alice")
    token = services.login("Alice", PASSWORD).token
    set_clock(services, step)
    services.app.sessions.authenticate(token)
    services.clock.advance(days=8)
    with pytest.raises(Unauthorized):
        services.app.sessions.authenticate(token)


@BACK
def test_an_app_shows_codes_that_count(services: ServiceHarness, step: timedelta) -> None:
    """The last code was shown to a clock that was ahead; a code is still good only once."""
    user, secret = services.approved("Alice"), "JBSWY3DPEHPK3PXP"
    used = int(services.clock().timestamp()) // 30
    assert use_time_step(user.id, used)
    set_clock(services, step)
    now = services.clock()
    found = find_time_step(secret, str(TOTP(key=secret).generate(now).token), now, after=used)
    assert found is not None
    assert use_time_step(user.id, found)
    assert not use_time_step(user.id, found)


def test_a_clock_years_ahead_deletes_nothing(services: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    """Until it has been so for a week."""
    services.approved("Alice")
    retention = services.app.retention
    services.clock.advance(days=8)
    services.login("Alice", PASSWORD)
    assert retention.start_unattended().tasks
    assert caplog.messages == []
    services.clock.advance(days=730)
    services.login("Alice", PASSWORD)
    assert not retention.start_unattended().tasks
    assert "companion purge deletes it now" in caplog.text
    services.clock.advance(days=8)
    assert retention.start_unattended().tasks


async def test_a_job_keeps_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = asyncio.Semaphore(0)

    async def tick() -> None:
        ticks.release()

    runner = JobRunner([Job("sync", timedelta(milliseconds=10), tick)])
    runner.start()
    await ticks.acquire()
    true_time = time.time
    monkeypatch.setattr("time.time", lambda: true_time() - 7200)
    for _tick in range(3):
        await asyncio.wait_for(ticks.acquire(), 10)
    await runner.stop()


RELATIVE_WAITS = """
import select
import time
from _thread import allocate_lock
from threading import Condition

wait_for_ever = Condition.wait

def sleep(seconds):
    select.select((), (), (), seconds)

def wait(self, timeout=None):
    if timeout is None:
        return wait_for_ever(self)
    lock, ends_at = allocate_lock(), time.monotonic() + timeout
    lock.acquire()
    self._waiters.append(lock)
    state = self._release_save()
    try:
        while not (is_notified := lock.acquire(False)) and time.monotonic() < ends_at:
            sleep(0.001)
        if not is_notified and lock in self._waiters:  # another thread may notify it just now
            self._waiters.remove(lock)
        return is_notified
    finally:
        self._acquire_restore(state)

time.sleep, Condition.wait = sleep, wait

import regex

compile_pattern = regex.compile


class Untimed:
    def __init__(self, pattern):
        self.pattern = pattern

    def __getattr__(self, name):
        return getattr(self.pattern, name)

    def fullmatch(self, text, timeout=None):
        return self.pattern.fullmatch(text)


regex.compile = lambda *given, **options: Untimed(compile_pattern(*given, **options))
"""
"""A `sitecustomize.py`: beneath libfaketime 0.9.10 the time-outs of `regex` cannot be trusted, and waits until a
monotonic time fail with EINVAL every now and then.
"""


class FakeTime:
    """The clock of a process with libfaketime, as far from the true one as a file says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.with_name("sitecustomize.py").write_text(RELATIVE_WAITS, "utf-8")
        self._ahead = timedelta()
        self.step(timedelta())

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": find_library("faketime/libfaketimeMT.so.1"),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "PYTHONPATH": str(self._file.parent),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, amount: timedelta) -> None:
        self._ahead += amount
        written = self._file.with_suffix(".new")
        written.write_text(f"{self._ahead.total_seconds():+.0f}", "ascii")
        written.rename(self._file)

    def now_ms(self) -> int:
        return round((time.time() + self._ahead.total_seconds()) * 1000)


@pytest.fixture
def fake_time(tmp_path: Path) -> FakeTime:
    return FakeTime(tmp_path / "ahead")


@pytest.fixture
def stack(fake_time: FakeTime, tmp_path: Path) -> Iterator[Stack]:
    config = {"sync": {"every": "1 second"}}
    with Stack("sqlite", tmp_path, config=config, environment=fake_time.environment, is_quick=False) as stack:
        yield stack


def live_a_moment(stack: Stack, fake_time: FakeTime) -> None:
    """Alice's code comes, she is approved, logs in and is banned for two seconds; Bob registers in the game."""
    stack.get("/api/admin/verify", token=stack.olivia())  # after two hours she has to log in again
    alice, bob = stack.approved("alice"), stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    stack.user_token(alice)
    stack.decides("ban", alice, expiresAt=fake_time.now_ms() + 2000)
    ask_until(lambda: stack.status(bob), lambda status: status is not None)
    ask_until(lambda: stack.status(alice), lambda status: status == "approved")


def test_a_daemon_whose_clock_is_set_goes_on(stack: Stack, fake_time: FakeTime) -> None:
    """Two hours forward and back, and two years back."""
    for step in (HOURS, -HOURS, -YEARS):
        fake_time.step(step)
        began = time.monotonic()
        live_a_moment(stack, fake_time)
        assert time.monotonic() - began < LATE
