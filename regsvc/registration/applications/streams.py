"""Live streams of applications: each client receives its application at once, and again whenever it changes.

While at least one client listens, the applications that clients listen to are loaded together every 1.5 seconds, and at
once after a change made in this process: what another process, the sync or SQL changes is not missed. Of several
changes between two loads, a client receives the last state.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Final

from regsvc.core.caller import Caller
from regsvc.core.errors import Refusal, TooManyStreams
from regsvc.core.exceptions import describe_exception
from regsvc.registration.applications.status import Applications, ApplicationStatus

log = logging.getLogger(__name__)

MAX_STREAMS: Final = 200
MAX_STREAMS_PER_CLIENT: Final = 20
MAX_STREAMS_PER_APPLICATION: Final = 5
HEARTBEAT_INTERVAL: Final = timedelta(seconds=20)
POLL_INTERVAL: Final = timedelta(seconds=1.5)
SHORTEST_PAUSE: Final = timedelta(seconds=0.25)
"""Between two loads, however much changes."""


class ApplicationStream:
    """The last state of one application, for one client. Use on the event loop only."""

    def __init__(self, token: str, status: ApplicationStatus) -> None:
        self.token = token
        self._status = status
        self._has_news = asyncio.Event()
        self._has_news.set()
        self.is_closed = False
        self.on_close: Callable[[], None] = lambda: None
        """Called once, so that a writer blocked on a slow client can be interrupted."""

    def put(self, status: ApplicationStatus) -> None:
        """Replace the state; the client receives it if it differs."""
        if status != self._status:
            self._status = status
            self._has_news.set()

    def close(self) -> None:
        """End the stream."""
        if not self.is_closed:
            self.is_closed = True
            self._has_news.set()
            self.on_close()

    async def next_status(self, seconds: float) -> ApplicationStatus | None:
        """Return the state once it is new, or None if it is not after `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_news.wait(), seconds)
        if not self._has_news.is_set():
            return None
        self._has_news.clear()
        return self._status


class ApplicationStreams:
    """All streams of applications of this process, which are loaded together.

    Use on the event loop only, except for `wake`.
    """

    def __init__(
        self,
        applications: Applications,
        *,
        heartbeat_interval: timedelta = HEARTBEAT_INTERVAL,
        poll_interval: timedelta = POLL_INTERVAL,
        shortest_pause: timedelta = SHORTEST_PAUSE,
    ) -> None:
        self._applications = applications
        self._heartbeat_interval = heartbeat_interval.total_seconds()
        self._poll_interval = poll_interval.total_seconds()
        self._shortest_pause = shortest_pause.total_seconds()
        self._streams: set[ApplicationStream] = set()
        self._open_by_token: Counter[str] = Counter()
        self._open_by_client: Counter[str] = Counter()
        self._wakeup = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    # --- For clients ---

    @contextlib.asynccontextmanager
    async def listen(self, token: str, caller: Caller) -> AsyncIterator[ApplicationStream]:
        """Open a stream. Raises `ApplicationNotFound`, `TooManyStreams` and `DatabaseUnavailable`."""
        stream = ApplicationStream(token, await self._applications.find(token))
        with self._reserved(token, caller.limit_key):
            if self._is_closed:
                stream.close()
            self._streams.add(stream)
            self._start_polling()
            try:
                yield stream
            finally:
                self._streams.discard(stream)

    async def statuses(self, stream: ApplicationStream) -> AsyncIterator[ApplicationStatus | None]:
        """Yield the application now and after each change, and None as a heartbeat. Ends with the application."""
        while not stream.is_closed:
            status = await stream.next_status(self._heartbeat_interval)
            if not stream.is_closed:
                yield status

    # --- For the code that changes something ---

    def wake(self) -> None:
        """Load the applications now. Call after the transaction that changed something; safe from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wakeup.set)

    def close(self) -> None:
        """End all streams, and every one opened later."""
        self._is_closed = True
        for stream in self._streams:
            stream.close()

    # --- Internals ---

    @contextlib.contextmanager
    def _reserved(self, token: str, client: str) -> Iterator[None]:
        is_full = self._open_by_token.total() >= MAX_STREAMS
        if is_full or self._open_by_client[client] >= MAX_STREAMS_PER_CLIENT:
            raise TooManyStreams
        if self._open_by_token[token] >= MAX_STREAMS_PER_APPLICATION:
            raise TooManyStreams
        counts = ((self._open_by_token, token), (self._open_by_client, client))
        for counter, key in counts:
            counter[key] += 1
        try:
            yield
        finally:
            for counter, key in counts:
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]

    def _start_polling(self) -> None:
        if self._poller is None or self._poller.done():
            self._loop = asyncio.get_running_loop()
            self._poller = asyncio.create_task(self._poll(), name="applications")

    async def _poll(self) -> None:
        while self._streams:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), self._poll_interval)
            self._wakeup.clear()
            try:
                await self._load()
            except Refusal as refusal:  # changes during a database outage are sent when it is over
                log.debug("applications are delayed: %s", refusal.code)
            except Exception as bug:
                log.error("cannot load applications for their streams: %s", describe_exception(bug))
            await asyncio.sleep(self._shortest_pause)

    async def _load(self) -> None:
        streams = list(self._streams)
        found = await self._applications.find_all(sorted({stream.token for stream in streams}))
        for stream in streams:
            if stream.token in found:
                stream.put(found[stream.token])
            else:
                stream.close()
