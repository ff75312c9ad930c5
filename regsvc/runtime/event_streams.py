"""Admins who listen: each gets what happens from now on, for as long as the session stands.

Events are found by looking into the audit log every other second while somebody listens, and at once when something was
changed here. So nothing is missed that another process, the sync or a person with SQL did.
"""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import Final

from regsvc.core.caller import Session
from regsvc.core.errors import Refusal, TooManyStreams
from regsvc.core.exceptions import describe_exception
from regsvc.database.engine import Worker
from regsvc.runtime.events import Event, EventLog, Tail, event_of_run
from regsvc.sync.report import SyncReport

log = logging.getLogger(__name__)

MAX_STREAMS: Final = 50
MAX_STREAMS_PER_ADMIN: Final = 5
MAX_REPEATED: Final = 500
"""How many events somebody who comes back is told of what happened meanwhile; the newest count."""
MAX_WAITING: Final = 10_000
"""Events for one listener who does not read them; one more, and the stream ends."""
MAX_AT_ONCE: Final = 200
"""Events in one chunk."""
HEART_BEAT: Final = timedelta(seconds=20)
LOOK_EVERY: Final = timedelta(seconds=2)
CHECK_EVERY: Final = timedelta(seconds=5)
"""How often it is looked whether a listener's session still stands."""

# A transaction may be open for a while after it took its id, and ids behind it become visible before.
_LATE: Final = 10.0  # seconds
_GREETING: Final = b"retry: 3000\n\n"
_BEAT: Final = b": still here\n\n"

IsStillAdmin = Callable[[Session], bool]


class EventStream:
    """What one listener is told. For the event loop alone."""

    def __init__(self, session: Session, max_waiting: int) -> None:
        self.session = session
        self._max_waiting = max_waiting
        self._waiting: deque[Event] = deque()
        self._repeated: frozenset[int | None] = frozenset()
        self._something_happened = asyncio.Event()
        self.is_closed = False
        self.on_close: Callable[[], None] = lambda: None
        """Called once; for whoever waits for the listener and not for the stream."""

    def offer(self, event: Event) -> None:
        """Tell this next. Ends the stream of somebody who has not read too many."""
        if event.id is not None and event.id in self._repeated:
            return
        if len(self._waiting) >= self._max_waiting:
            log.info("a listener does not read its events: %s", self.session.username)
            self.close()
            return
        self._waiting.append(event)
        self._something_happened.set()

    def repeat(self, missed: Iterable[Event]) -> None:
        """Tell these before everything else, and none of them twice."""
        events = tuple(missed)
        self._repeated = frozenset(event.id for event in events)
        news = [event for event in self._waiting if event.id is None or event.id not in self._repeated]
        self._waiting = deque((*events, *news))
        self._something_happened.set()

    def close(self) -> None:
        """Say nothing more."""
        if not self.is_closed:
            self.is_closed = True
            self._something_happened.set()
            self.on_close()

    async def wait(self, seconds: float) -> bytes:
        """What there is to tell, if need be after a while; empty when nothing happened."""
        if not self._waiting:
            self._something_happened.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._something_happened.wait(), seconds)
        if self.is_closed:
            return b""
        return b"".join(self._waiting.popleft().encode() for _turn in range(min(len(self._waiting), MAX_AT_ONCE)))


class EventStreams:
    """All listeners of this process, and the one look into the log they share. For the event loop, but for `wake`."""

    def __init__(
        self,
        worker: Worker,
        event_log: EventLog,
        is_still_admin: IsStillAdmin,
        *,
        heart_beat: timedelta = HEART_BEAT,
        look_every: timedelta = LOOK_EVERY,
        check_every: timedelta = CHECK_EVERY,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """`is_still_admin` is a rule."""
        self._worker = worker
        self._log = event_log
        self._is_still_admin = is_still_admin
        self._heart_beat = heart_beat.total_seconds()
        self._look_every = look_every.total_seconds()
        self._check_every = check_every.total_seconds()
        self._max_waiting = max_waiting
        self._streams: set[EventStream] = set()
        self._places: Counter[int] = Counter()  # taken, by user
        self._tail = _TailReader()
        self._look = asyncio.Lock()
        self._news = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    # --- For listeners ---

    @contextlib.asynccontextmanager
    async def listen(self, session: Session, last_event_id: int | None) -> AsyncIterator[EventStream]:
        """A stream of everything that happens inside; first, what happened after `last_event_id`.

        Raises `TooManyStreams`, and `DatabaseUnavailable` while nobody knows what happens.
        """
        self._take_place(session)
        stream = EventStream(session, self._max_waiting)
        try:
            await self._begin(stream)
            if last_event_id is not None:
                stream.repeat(await self._worker.run(self._log.list_newest, last_event_id, MAX_REPEATED))
            if self._is_closed:
                stream.close()
            yield stream
        finally:
            self._streams.discard(stream)
            self._places[session.user_id] -= 1
            self._places += Counter()  # forgets those who have none left

    async def chunks(self, stream: EventStream) -> AsyncIterator[bytes]:
        """What to send, as it comes: events, and a sign of life when there are none. Ends with the session."""
        now = asyncio.get_running_loop().time
        beat_at, check_at = now() + self._heart_beat, now() + self._check_every
        yield _GREETING
        while not stream.is_closed:
            told = await stream.wait(max(0.0, min(beat_at, check_at) - now()))
            if told or now() >= check_at:  # whose session has ended is told nothing more
                if not await self._may_listen(stream.session):
                    return
                check_at = now() + self._check_every
            if told or now() >= beat_at:
                yield told or _BEAT
                beat_at = now() + self._heart_beat

    # --- For those who change something ---

    def wake(self) -> None:
        """Look into the log now. From any thread, after the transaction that changed something."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._news.set)

    def follow_run(self, report: SyncReport) -> None:
        """Tell of a run of the sync. One that changed something stands in the log."""
        if report.has_effects:
            self.wake()
        else:
            self._tell([event_of_run(report)])

    def close(self) -> None:
        """End all streams, and every one that is opened from now on."""
        self._is_closed = True
        for stream in self._streams:
            stream.close()

    # --- Inside ---

    def _take_place(self, session: Session) -> None:
        is_full = self._places.total() >= MAX_STREAMS
        if is_full or self._places[session.user_id] >= MAX_STREAMS_PER_ADMIN:
            raise TooManyStreams
        self._places[session.user_id] += 1

    async def _begin(self, stream: EventStream) -> None:
        """Let the stream hear all that is not in the log yet."""
        async with self._look:
            if self._is_idle:
                self._tail.begin(await self._worker.run(self._log.newest_id))
            else:
                await self._read()
            self._streams.add(stream)
            if self._is_idle:
                self._loop = asyncio.get_running_loop()
                self._follower = asyncio.create_task(self._follow(), name="events")

    @property
    def _is_idle(self) -> bool:
        return self._follower is None or self._follower.done()

    async def _follow(self) -> None:
        while self._streams:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._look_every)
            self._news.clear()
            try:
                async with self._look:
                    await self._read()
            except Refusal as refusal:  # what happened while the database was away is told when it is back
                log.debug("events wait: %s", refusal.code)
            except Exception as bug:
                log.error("events cannot be read: %s", describe_exception(bug))

    async def _read(self) -> None:
        self._tell(self._tail.take(await self._worker.run(self._log.read_tail, self._tail.floor)))

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            for stream in self._streams:
                stream.offer(event)

    async def _may_listen(self, session: Session) -> bool:
        """While the database is away nobody knows; whoever comes back then is told so."""
        try:
            return await self._worker.run(self._is_still_admin, session)
        except Refusal as refusal:
            log.debug("a stream of events ends: %s", refusal.code)
            return False


class _TailReader:
    """Which entries were seen. Ids become visible out of order, so the newest seconds are read again each time."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()  # when the log was how long
        self._seen: set[int] = set()
        self.floor = 0
        """Everything up to this id is over."""

    def begin(self, newest_id: int) -> None:
        """What is in the log by now is history."""
        self._marks.clear()
        self._seen.clear()
        self.floor = newest_id

    def take(self, tail: Tail) -> list[Event]:
        """The events nobody has been told of."""
        news = [event for event in tail.events if event.id not in self._seen]
        self._seen.update(event.id for event in news if event.id is not None)
        moment = asyncio.get_running_loop().time()
        self._marks.append((moment, tail.newest_id))
        while self._marks and self._marks[0][0] <= moment - _LATE:
            self.floor = max(self.floor, self._marks.popleft()[1])
        self._seen = {event_id for event_id in self._seen if event_id > self.floor}
        return news
