"""Event streams: clients receive every event, whatever causes it, and nothing after their session has ended."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from peewee import Database

from regsvc.core.clock import epoch_ms
from regsvc.core.errors import DatabaseUnavailable, TooManyStreams
from regsvc.database.audit import SYNC, Actor, Audit
from regsvc.database.engine import Worker
from regsvc.runtime import event_streams
from regsvc.runtime.event_streams import MAX_REPLAYED, MAX_STREAMS
from regsvc.sync.report import SyncReport
from tests.support.event_harness import (
    NEVER,
    SOON,
    TIMEOUT,
    EventHarness,
    add_many,
    events_in,
    open_streams,
    session_of,
    start_listening,
)
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.one_database("sqlite")

MakeEventHarness = Callable[..., EventHarness]


@pytest.fixture
def worker(our_database: Database) -> Iterator[Worker]:
    worker = Worker(our_database, 2)
    worker.is_open = True
    yield worker
    worker.close()


@pytest.fixture
def make_event_harness(worker: Worker, clock: ManualClock) -> MakeEventHarness:
    return lambda **options: open_streams(worker, Audit(clock), **options)


async def test_a_change_here_is_heard_at_once(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness(poll_interval=NEVER)
    async with event_harness.listening() as listener:
        await event_harness.record_change()
        assert await listener.expect_events(1) == [("user_approved", "Alice")]


async def test_everybody_hears_it_and_latecomers_only_what_follows(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness(poll_interval=NEVER)
    async with event_harness.streams.listen(session_of(), None) as first:
        early = await start_listening(event_harness, first)
        await event_harness.record_change(target="Before", is_announced=False)
        async with event_harness.streams.listen(session_of("Oscar", 2), None) as second:
            late = await start_listening(event_harness, second)
            await event_harness.record_change(target="After")
            assert await early.expect_events(2) == [("user_approved", "Before"), ("user_approved", "After")]
            assert await late.expect_events(1) == [("user_approved", "After")]


async def test_many_may_start_listening_at_the_same_moment(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness()

    async def listen(number: int, everybody: asyncio.Barrier) -> None:
        async with event_harness.streams.listen(session_of(f"Admin{number}", number), None) as stream:
            listener = await start_listening(event_harness, stream)
            await everybody.wait()
            assert await listener.expect_events(1) == [("user_approved", "Alice")]

    everybody = asyncio.Barrier(21)
    listening = asyncio.gather(*(listen(number, everybody) for number in range(20)))
    await everybody.wait()
    await event_harness.record_change()
    await listening


@pytest.mark.every_database
async def test_what_is_missed_and_happens_is_told_in_order(make_event_harness: MakeEventHarness) -> None:
    """Other listeners get the event at the same time, and no listener gets it twice."""
    event_harness = make_event_harness(poll_interval=NEVER)
    async with event_harness.streams.listen(session_of("Oscar", 2), None) as other:
        oscar = await start_listening(event_harness, other)
        for name in ("Alice", "Bob"):
            await event_harness.record_change(target=name, is_announced=False)
        async with event_harness.streams.listen(session_of(), 0) as stream:
            listener = await start_listening(event_harness, stream)
            await event_harness.record_change(target="Carol")
            assert [name for _event, name in await listener.expect_events(3)] == ["Alice", "Bob", "Carol"]
            assert [name for _event, name in await oscar.expect_events(3)] == ["Alice", "Bob", "Carol"]


async def test_a_long_absence_is_told_in_part(make_event_harness: MakeEventHarness, clock: ManualClock) -> None:
    event_harness = make_event_harness()
    add_many(MAX_REPLAYED + 7, clock)
    async with event_harness.streams.listen(session_of(), 1) as stream:
        listener = await start_listening(event_harness, stream)
        heard: list[object] = []
        while len(heard) < MAX_REPLAYED:
            heard += events_in(await listener.chunk())
        assert len(heard) == MAX_REPLAYED


@pytest.mark.parametrize("last_event_id", [10**15, 2**62])
async def test_an_id_of_another_log_misses_nothing(make_event_harness: MakeEventHarness, last_event_id: int) -> None:
    event_harness = make_event_harness()
    await event_harness.record_change(target="Before")
    async with event_harness.streams.listen(session_of(), last_event_id) as stream:
        listener = await start_listening(event_harness, stream)
        await event_harness.record_change()
        assert await listener.expect_events(1) == [("user_approved", "Alice")]


@pytest.mark.every_database
@pytest.mark.parametrize("database_kind", ["mariadb"])
async def test_an_entry_that_commits_late_is_heard_late(
    make_event_harness: MakeEventHarness, our_database: Database
) -> None:
    """Its id is lower than that of the event received first. (SQLite has one writer at a time.)"""
    event_harness = make_event_harness()
    has_taken_id, may_commit = threading.Event(), threading.Event()

    def dawdle() -> None:
        with our_database.connection_context(), our_database.atomic():
            event_harness.audit.record("user.approved", Actor("sql"), "Late")
            has_taken_id.set()
            assert may_commit.wait(TIMEOUT)

    async with event_harness.listening() as listener:
        dawdling = asyncio.create_task(asyncio.to_thread(dawdle))
        await asyncio.to_thread(has_taken_id.wait, TIMEOUT)
        await event_harness.record_change(target="Early")
        assert await listener.expect_events(1) == [("user_approved", "Early")]
        may_commit.set()
        await dawdling
        assert await listener.expect_events(1) == [("user_approved", "Late")]
        await event_harness.record_change(target="Last")
        assert await listener.expect_events(1) == [("user_approved", "Last")]


async def test_what_is_long_over_is_not_looked_at_again(
    make_event_harness: MakeEventHarness, monkeypatch: pytest.MonkeyPatch, our_database: Database
) -> None:
    monkeypatch.setattr(event_streams, "_COMMIT_DELAY", 0.0)
    event_harness = make_event_harness(poll_interval=NEVER)
    async with event_harness.listening() as listener:
        for name in ("Alice", "Bob", "Carol"):
            await event_harness.record_change(target=name)
            assert await listener.expect_events(1) == [("user_approved", name)]
        assert event_harness.streams._tail.settled_id == 3
        assert not event_harness.streams._tail._published


# --- The sync ---


async def test_a_run_without_effects_is_told_too(make_event_harness: MakeEventHarness, clock: ManualClock) -> None:
    event_harness = make_event_harness(poll_interval=NEVER)
    async with event_harness.listening() as listener:
        event_harness.streams.publish_run(SyncReport(started_at=clock(), duration_ms=12, scanned=3))
        chunk = await listener.chunk()
    assert chunk.startswith(b"event: sync_finished\ndata: ")
    told = json.loads(chunk.split(b"data: ")[1])
    assert (told["scanned"], told["adopted"], told["at"]) == (3, 0, epoch_ms(clock()) + 12)


async def test_a_run_with_effects_is_told_once(make_event_harness: MakeEventHarness, clock: ManualClock) -> None:
    event_harness = make_event_harness(poll_interval=NEVER)
    async with event_harness.listening() as listener:
        report = SyncReport(started_at=clock(), scanned=3, adopted=1)
        await event_harness.worker.run(event_harness.audit.record, "sync.run", SYNC, None, report.counts())
        event_harness.streams.publish_run(report)
        await event_harness.record_change()
        assert await listener.expect_events(2) == [("sync_finished", None), ("user_approved", "Alice")]


# --- The end of a stream ---


async def test_a_sign_of_life_comes_when_nothing_else_does(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness(heartbeat_interval=SOON)
    async with event_harness.listening() as listener:
        for _beat in range(3):
            assert await listener.chunk() == b": still here\n\n"


async def test_whose_session_has_ended_is_told_nothing_more(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness()
    async with event_harness.listening() as listener:
        event_harness.banned.add("Olivia")
        await event_harness.record_change()
        await listener.expect_end()


async def test_somebody_who_does_not_read_is_left_behind(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness(max_queued=5)
    async with (
        event_harness.streams.listen(session_of("Sleeper", 2), None) as asleep,
        event_harness.streams.listen(session_of(), None) as stream,
    ):
        sleeper, listener = (
            await start_listening(event_harness, asleep),
            await start_listening(event_harness, stream),
        )
        for number in range(6):
            await event_harness.record_change(target=f"User{number}")
            await listener.expect_events(1)
        assert asleep.is_closed
        await sleeper.expect_end()
        await event_harness.record_change()
        await listener.expect_events(1)


async def test_a_crowd_of_events_comes_in_pieces(make_event_harness: MakeEventHarness, clock: ManualClock) -> None:
    event_harness = make_event_harness()
    async with event_harness.listening() as listener:
        await event_harness.worker.run(add_many, 1500, clock)
        event_harness.streams.wake()
        sizes: list[int] = []
        while sum(sizes) < 1500:
            sizes.append(len(events_in(await listener.chunk())))
        assert max(sizes) <= event_streams.MAX_PER_CHUNK


async def test_so_many_listen_in_all(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness()
    async with AsyncExitStack() as open_ones:
        for number in range(MAX_STREAMS):
            session = session_of(f"Admin{number}", number)
            await open_ones.enter_async_context(event_harness.streams.listen(session, None))
        with pytest.raises(TooManyStreams):
            await open_ones.enter_async_context(event_harness.streams.listen(session_of("One more", 99), None))


async def test_a_stop_ends_every_stream(make_event_harness: MakeEventHarness) -> None:
    event_harness = make_event_harness()
    async with event_harness.listening() as listener:
        event_harness.streams.close()
        await listener.expect_end()
    async with event_harness.listening() as listener:
        await listener.expect_end()


async def test_without_a_database_nobody_may_listen(make_event_harness: MakeEventHarness, worker: Worker) -> None:
    event_harness = make_event_harness()
    worker.is_open = False
    with pytest.raises(DatabaseUnavailable):
        async with event_harness.streams.listen(session_of(), None):
            pass
    worker.is_open = True
    async with event_harness.listening() as listener:
        await event_harness.record_change()
        await listener.expect_events(1)


async def test_what_happened_while_the_database_was_away_is_told_when_it_is_back(
    make_event_harness: MakeEventHarness, worker: Worker
) -> None:
    event_harness = make_event_harness()
    async with event_harness.listening() as listener:
        await event_harness.record_change(is_announced=False)
        worker.is_open = False
        event_harness.streams.wake()
        await asyncio.sleep(0)
        worker.is_open = True
        assert await listener.expect_events(1) == [("user_approved", "Alice")]


async def test_a_listener_goes_while_nobody_knows_whether_she_may_stay(
    make_event_harness: MakeEventHarness, worker: Worker
) -> None:
    event_harness = make_event_harness(session_check_interval=SOON)
    async with event_harness.listening() as listener:
        worker.is_open = False
        await listener.expect_end()
    worker.is_open = True
