"""Periodic jobs: what they log, and how rarely they wake an idle process."""

import asyncio
import logging
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import chain, repeat
from threading import Semaphore
from unittest.mock import Mock

import pytest

from regsvc.cli import serve
from regsvc.core.errors import DatabaseUnavailable
from regsvc.database.models import Setting, User
from regsvc.notifications.delivery import DeliveryWorker, wake_if_due
from regsvc.runtime import jobs
from regsvc.runtime.jobs import Job, JobRunner
from regsvc.runtime.reload import POLL_INTERVAL
from tests.support.mail_parts import ALICE
from tests.support.services import ServiceHarness


async def test_a_job_that_fails_writes_a_line_each_time_and_its_traceback_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    outcomes: list[Exception | None] = [ValueError("secret"), ValueError("secret"), None, None]

    async def run() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    runner = JobRunner([Job("sync", timedelta(seconds=30), run, runs_at_start=True)])
    for _tick in range(4):
        runner.start()
        await runner.stop()
    failures = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert len(failures) == 2
    assert failures[0].startswith("the job sync failed: ValueError at test_jobs.py:")
    assert failures[0].endswith("; it is tried again in 30 seconds")
    others = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.INFO]
    begins = [other.split(":")[0] for other in others]
    assert begins == ["for a bug report about the job sync", "the job sync works again"]
    assert "secret" not in caplog.text


async def test_a_job_waits_for_the_database_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        raise DatabaseUnavailable(retry_after=2)

    runner = JobRunner([Job("sync", timedelta(seconds=30), run, runs_at_start=True)])
    runner.start()
    await runner.stop()
    assert caplog.records == []


async def test_only_a_job_with_a_spread_starts_later() -> None:
    runs: list[str] = []
    has_run = asyncio.Event()

    async def sync() -> None:
        runs.append("sync")

    async def updates() -> None:
        runs.append("updates")
        has_run.set()

    every = timedelta(hours=1)
    for spread in (every, timedelta(milliseconds=1)):
        later = Job("updates", every, updates, runs_at_start=True, spread=spread)
        runner = JobRunner([later, Job("sync", every, sync, runs_at_start=True)])
        runner.start()
        if spread != every:
            await asyncio.wait_for(has_run.wait(), 10)
        await runner.stop()
    assert runs == ["sync", "sync", "updates"]


# --- wake-ups ---

QUICKLY = timedelta(milliseconds=2)


async def test_a_look_that_finds_nothing_wakes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """All jobs that look share a thread; only what one finds reaches the event loop, and only its job runs."""
    loop = asyncio.get_running_loop()
    woken = Mock(wraps=loop.call_soon_threadsafe)
    monkeypatch.setattr(loop, "call_soon_threadsafe", woken)
    results = [False] * 5 + [True]
    threads = set()
    ran = asyncio.Event()

    def look_at_files() -> bool:
        threads.add(threading.current_thread().name)
        return bool(results) and results.pop(0)

    def look_at_clock() -> bool:
        threads.add(threading.current_thread().name)
        return False

    async def run() -> None:
        ran.set()

    clock = Job("clock", QUICKLY, Mock(side_effect=AssertionError), look=look_at_clock)
    runner = JobRunner([clock, Job("files", QUICKLY, run, look=look_at_files)])
    runner.start()
    await asyncio.wait_for(ran.wait(), 10)
    await runner.stop()
    assert (results, woken.call_count, threads) == ([], 1, {"look"})


async def test_nobody_looks_while_the_job_runs() -> None:
    """What was found while the database was away is looked for, and tried, again."""
    other_looks, runs, is_running = Semaphore(0), Semaphore(0), False
    meanwhile: list[bool] = []

    def look() -> bool:
        meanwhile.append(is_running)
        return True

    def look_elsewhere() -> bool:
        other_looks.release()
        return False

    async def run() -> None:
        nonlocal is_running
        is_running = True
        for _look in range(2):
            await asyncio.to_thread(other_looks.acquire)
        is_running = False
        runs.release()
        raise DatabaseUnavailable(retry_after=2)

    elsewhere = Job("clock", QUICKLY, Mock(side_effect=AssertionError), look=look_elsewhere)
    runner = JobRunner([Job("files", QUICKLY, run, look=look, runs_at_start=True), elsewhere])
    runner.start()
    for _run in range(3):
        assert await asyncio.to_thread(runs.acquire, timeout=10)
    other_looks.release(2)
    await runner.stop()
    assert not any(meanwhile)


async def test_a_look_that_fails_is_told_and_made_again(caplog: pytest.LogCaptureFixture) -> None:
    look = Mock(side_effect=[OSError("secret"), OSError("secret"), True, False, False])
    ran = asyncio.Event()

    async def run() -> None:
        ran.set()

    runner = JobRunner([Job("files", QUICKLY, run, look=look)])
    runner.start()
    await asyncio.wait_for(ran.wait(), 10)
    await runner.stop()
    failures = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert [failure.split(":")[0] for failure in failures] == ["the job files failed"] * 2
    assert "secret" not in caplog.text


async def test_a_job_works_again_when_its_look_does(monkeypatch: pytest.MonkeyPatch) -> None:
    told = asyncio.Queue[str]()
    monkeypatch.setattr(jobs.log, "info", lambda text, *facts: told.put_nowait(text % facts))
    look = Mock(side_effect=chain([OSError], repeat(False)))
    runner = JobRunner([Job("files", QUICKLY, Mock(side_effect=AssertionError), look=look)])
    runner.start()
    assert (await asyncio.wait_for(told.get(), 10)).startswith("for a bug report about the job files")
    assert await asyncio.wait_for(told.get(), 10) == "the job files works again"
    await runner.stop()


async def test_a_game_folder_that_does_not_answer_holds_up_its_own_looks_only(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock and the installation are looked at all the same."""
    listed: list[Job] = []
    monkeypatch.setattr(serve, "JobRunner", listed.extend)
    serve.Daemon(services.app, Mock())
    answer, looked = threading.Event(), {job.name: asyncio.Event() for job in listed if job.look}
    loop = asyncio.get_running_loop()

    def look(job: Job) -> None:
        loop.call_soon_threadsafe(looked[job.name].set)
        if job.name in ("rights", "game files"):
            answer.wait()

    runner = JobRunner(
        [replace(job, every=QUICKLY, runs_at_start=False, look=partial(look, job)) for job in listed if job.look]
    )
    runner.start()
    try:
        for _time in range(2):
            for name in ("clock", "installation"):
                await asyncio.wait_for(looked[name].wait(), 10)
                looked[name].clear()
    finally:
        answer.set()
        await runner.stop()


def test_an_idle_daemon_sleeps(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks at files does so on threads; timers of the event loop are rare, and in step with each other."""
    listed: list[Job] = []
    monkeypatch.setattr(serve, "JobRunner", listed.extend)
    serve.Daemon(services.app, Mock())
    seconds = {job.every.total_seconds() for job in listed if job.look is None}
    wakings = {waking for every in seconds for waking in range(60) if waking % every == 0}
    assert wakings == {0, 15, 30, 45}
    assert {job.every for job in listed if job.look_thread == "game look"} == {POLL_INTERVAL}
    assert {job.every for job in listed if job.look_thread == "look" and job.look} == {timedelta(seconds=5)}


async def test_a_job_that_is_asked_for_runs_at_once() -> None:
    """One that runs already runs again; its times stay as they were."""
    begun, may_end = Semaphore(0), Semaphore(0)

    async def run() -> None:
        begun.release()
        await asyncio.to_thread(may_end.acquire)

    async def has_begun(within: float) -> bool:
        return await asyncio.to_thread(begun.acquire, timeout=within)

    runner = JobRunner([Job("settings", timedelta(hours=1), run)])
    runner.start()
    runner.run_now("settings")
    assert await has_begun(10)
    runner.run_now("settings")
    may_end.release()
    assert await has_begun(10), "what it has read may be from before it was asked for"
    may_end.release()
    assert not await has_begun(0.1)
    await runner.stop()


async def test_jobs_that_are_due_together_begin_one_after_the_other() -> None:
    """One that is asked for in between does not change that."""
    loop, began_at = asyncio.get_running_loop(), asyncio.Queue[tuple[str, float]]()
    every = timedelta(seconds=0.4)

    async def run(name: str) -> None:
        began_at.put_nowait((name, loop.time()))

    runner = JobRunner([Job(name, every, partial(run, name)) for name in ("first", "second")])
    start = loop.time()
    runner.start()
    asked = asyncio.create_task(asyncio.sleep(0.2))
    asked.add_done_callback(lambda _task: runner.run_now("first"))
    begun = [await asyncio.wait_for(began_at.get(), 10) for _run in range(5)]
    await runner.stop()
    assert [name for name, _at in begun] == ["first", "first", "second", "first", "second"]
    assert all(at - start >= earliest for (_name, at), earliest in zip(begun, (0.2, 0.4, 0.44, 0.8, 0.84), strict=True))


def test_a_sync_run_without_work_wakes_no_delivery(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    app, woken, alice = services.app, Mock(), services.approved("alice")
    app.open()
    monkeypatch.setattr(DeliveryWorker, "wake", woken)

    async def run_after(changes: dict[str, str]) -> list[bool]:
        """Return which of three runs woke the deliveries."""
        User.update(changes).where(User.id == alice.id).execute()
        are_woken = []
        for _run in range(3):
            woken.reset_mock()
            await app.sync.run()
            are_woken.append(woken.called)
        return are_woken

    async def type_both() -> tuple[list[bool], list[bool]]:
        return await run_after({"role": "moderator"}), await run_after({"status": "banned"})

    assert asyncio.run(type_both()) == ([True, False, False], [True, False, False])


def test_one_call_finds_what_other_processes_stored(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement for messages of every kind: one that is due, or that this is unknown, wakes all deliveries.

    And one for the settings.
    """
    app, database = services.app, services.app.context.location.database
    app.open()
    checked, sent = Mock(), Mock(wraps=database.execute_sql)
    monkeypatch.setattr(DeliveryWorker, "check", checked)

    def check() -> tuple[int, int]:
        """Return the numbers of statements and of deliveries that were woken."""
        checked.reset_mock()
        sent.reset_mock()
        asyncio.run(wake_if_due(app.worker, app.outbox, app.deliveries, app.follow_database))
        return sent.call_count, checked.call_count

    check()  # opens the connection
    monkeypatch.setattr(database, "execute_sql", sent)
    assert check() == (2, 0)
    Setting.create(name="registration", value='{"open": false}', changed_by="olivia", changed_at=services.clock())
    seen = app.live.current
    check()
    assert (seen.registration.open, app.live.current.registration.open) == (True, False)
    app.outbox.put("approved", ALICE, "en")
    assert check() == (2, len(app.deliveries))
    app.outbox.claim_due(1)
    assert check() == (2, 0)
    services.clock.advance(hours=1)
    assert check() == (2, len(app.deliveries))
    app.worker.is_open = False
    with pytest.raises(DatabaseUnavailable):
        check()
    assert checked.call_count == len(app.deliveries)
