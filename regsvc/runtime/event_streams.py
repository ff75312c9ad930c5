"""Live event streams for admins: each client receives new events for as long as its session is valid.

While at least one client listens, the audit log is polled every two seconds, and at once after a change made in this
process. Polling the log means that changes by another process, by the sync or by hand-typed SQL are not missed.
"""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import Final

from regsvc.core.caller import VerifiedSession
from regsvc.core.errors import Refusal, TooManyStreams
from regsvc.database.engine import Worker
from regsvc.runtime.events import HEARTBEAT, PREAMBLE, Event, event_from_run, list_newest, newest_id, read_tail
from regsvc.runtime.live_streams import LiveStream, LiveStreams
from regsvc.sync.report import SyncReport

log = logging.getLogger(__name__)

MAX_STREAMS: Final = 50
MAX_STREAMS_PER_ADMIN: Final = 5
MAX_REPLAYED: Final = 500
"""Missed events sent to a client that reconnects; of more, the newest."""
MAX_QUEUED: Final = 10_000
"""Unread events per client; one more ends the stream."""
MAX_PER_CHUNK: Final = 200

# A transaction may stay open for a while after it took its id, so higher ids can become visible before it.
_COMMIT_DELAY: Final = 10.0  # seconds

IsStillAdmin = Callable[[VerifiedSession], bool]


class EventStream(LiveStream):
    """The queue of events for one client. Use on the event loop only."""

    def __init__(self, session: VerifiedSession, max_queued: int) -> None:
        super().__init__()
        self.session = session
        self._max_queued = max_queued
        self._queue: deque[Event] = deque()
        self._replayed: frozenset[int | None] = frozenset()

    def push(self, event: Event) -> None:
        """Queue an event. Closes the stream of a client that has too many unread ones."""
        if event.id is not None and event.id in self._replayed:
            return
        if len(self._queue) >= self._max_queued:
            log.info("closing the event stream of %s: the client does not read its events", self.session.username)
            self.close()
            return
        self._queue.append(event)
        self._has_news.set()

    def replay(self, missed: Iterable[Event]) -> None:
        """Put missed events before the queued ones, without sending any of them twice."""
        events = tuple(missed)
        self._replayed = frozenset(event.id for event in events)
        queued = [event for event in self._queue if event.id is None or event.id not in self._replayed]
        self._queue = deque((*events, *queued))
        self._has_news.set()

    async def next_batch(self, seconds: float) -> tuple[Event, ...]:
        """Return the queued events, waiting at most `seconds` for the first; empty if there were none."""
        if not self._queue:
            self._has_news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), seconds)
        if self.is_closed:
            return ()
        return tuple(self._queue.popleft() for _turn in range(min(len(self._queue), MAX_PER_CHUNK)))


class EventStreams(LiveStreams[EventStream]):
    """All event streams of this process, sharing one poller of the audit log."""

    contents = "events"

    def __init__(
        self,
        worker: Worker,
        is_still_admin: IsStillAdmin,
        *,
        heartbeat_interval: timedelta = timedelta(seconds=20),
        poll_interval: timedelta = timedelta(seconds=2),
        session_check_interval: timedelta = timedelta(seconds=5),
        max_queued: int = MAX_QUEUED,
    ) -> None:
        """`is_still_admin` blocks; it runs on the worker."""
        super().__init__(poll_interval)
        self._worker = worker
        self._is_still_admin = is_still_admin
        self._heartbeat_interval = heartbeat_interval.total_seconds()
        self._session_check_interval = session_check_interval.total_seconds()
        self._max_queued = max_queued
        self._open_by_user: Counter[int] = Counter()
        self._tail = _TailReader()
        self._read_lock = asyncio.Lock()

    # --- For clients ---

    @contextlib.asynccontextmanager
    async def listen(self, session: VerifiedSession, last_event_id: int | None) -> AsyncIterator[EventStream]:
        """Open a stream of new events, preceded by those after `last_event_id` (None: no replay).

        Raises `TooManyStreams`, and `DatabaseUnavailable` while the audit log cannot be read.
        """
        self._reserve_slot(session)
        stream = EventStream(session, self._max_queued)
        try:
            await self._subscribe(stream)
            if last_event_id is not None:
                stream.replay(await self._worker.run(list_newest, last_event_id, MAX_REPLAYED))
            yield stream
        finally:
            self._remove(stream)
            self._open_by_user[session.user_id] -= 1
            self._open_by_user += Counter()  # drops the zero counts

    async def chunks(self, stream: EventStream) -> AsyncIterator[bytes]:
        """Yield the bytes of server-sent events: events as they come, and a comment as a heartbeat."""
        yield PREAMBLE
        async for batch in self.batches(stream):
            yield b"".join(event.encode() for event in batch) or HEARTBEAT

    async def batches(self, stream: EventStream) -> AsyncIterator[tuple[Event, ...]]:
        """Yield events as they come, and an empty batch as a heartbeat. Ends with the session."""
        now = asyncio.get_running_loop().time
        heartbeat_at, check_at = now() + self._heartbeat_interval, now() + self._session_check_interval
        while not stream.is_closed:
            events = await stream.next_batch(max(0.0, min(heartbeat_at, check_at) - now()))
            if events or now() >= check_at:  # nothing is sent after the session has ended
                if not await self._has_valid_session(stream.session):
                    return
                check_at = now() + self._session_check_interval
            if events or now() >= heartbeat_at:
                yield events
                heartbeat_at = now() + self._heartbeat_interval

    # --- For whatever changes something ---

    def publish_run(self, report: SyncReport) -> None:
        """Publish a sync run. One that changed something is in the audit log and is published from there."""
        if report.has_effects:
            self.wake()
        else:
            self._publish([event_from_run(report)])

    # --- Internals ---

    def _reserve_slot(self, session: VerifiedSession) -> None:
        is_full = self._open_by_user.total() >= MAX_STREAMS
        if is_full or self._open_by_user[session.user_id] >= MAX_STREAMS_PER_ADMIN:
            raise TooManyStreams
        self._open_by_user[session.user_id] += 1

    async def _subscribe(self, stream: EventStream) -> None:
        """Add the stream at the current end of the log, and start the poller if it is not running."""
        async with self._read_lock:
            if self._is_idle:
                self._tail.reset(await self._worker.run(newest_id))
            else:
                await self._read_log()
            self._add(stream)

    async def _read(self) -> None:
        async with self._read_lock:
            await self._read_log()

    async def _read_log(self) -> None:
        self._publish(self._tail.new_events(*await self._worker.run(read_tail, self._tail.settled_id)))

    def _publish(self, events: Iterable[Event]) -> None:
        for event in events:
            for stream in self._streams:
                stream.push(event)

    async def _has_valid_session(self, session: VerifiedSession) -> bool:
        """Return False also while the database is away: a client that reconnects gets the proper error."""
        try:
            return await self._worker.run(self._is_still_admin, session)
        except Refusal as refusal:
            log.debug("closing an event stream: %s", refusal.code)
            return False


class _TailReader:
    """Reader that tracks which entries were published.

    Ids become visible out of order, so the last seconds are read again.
    """

    def __init__(self) -> None:
        self._checkpoints: deque[tuple[float, int]] = deque()  # loop time, newest id at that time
        self._published: set[int] = set()
        self.settled_id = 0
        """No entry up to this id can appear any more."""

    def reset(self, newest_id: int) -> None:
        """Treat everything up to this id as published."""
        self._checkpoints.clear()
        self._published.clear()
        self.settled_id = newest_id

    def new_events(self, newest: int, events: Iterable[Event]) -> list[Event]:
        """Return those of the events just read that were not returned before; `newest` is the log's newest id."""
        news = [event for event in events if event.id not in self._published]
        self._published.update(event.id for event in news if event.id is not None)
        moment = asyncio.get_running_loop().time()
        self._checkpoints.append((moment, newest))
        while self._checkpoints and self._checkpoints[0][0] <= moment - _COMMIT_DELAY:
            self.settled_id = max(self.settled_id, self._checkpoints.popleft()[1])
        self._published = {event_id for event_id in self._published if event_id > self.settled_id}
        return news
