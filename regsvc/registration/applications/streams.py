"""Live streams of applications: each client receives its application at once, and again whenever it changes.

While at least one client listens, the applications that clients listen to are loaded together every 1.5 seconds, and at
once after a change made in this process: what another process, the sync or SQL changes is not missed. Of several
changes between two loads, a client receives the last state.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Final

from regsvc.core.caller import Caller
from regsvc.core.errors import TooManyStreams
from regsvc.registration.applications.status import Applications, ApplicationStatus
from regsvc.runtime.live_streams import LiveStream, LiveStreams

MAX_STREAMS: Final = 200
MAX_STREAMS_PER_CLIENT: Final = 20
MAX_STREAMS_PER_APPLICATION: Final = 5
HEARTBEAT_INTERVAL: Final = timedelta(seconds=20)
POLL_INTERVAL: Final = timedelta(seconds=1.5)
SHORTEST_PAUSE: Final = timedelta(seconds=0.25)
"""Between two loads, however much changes."""


class ApplicationStream(LiveStream):
    """The last state of one application, for one client. Use on the event loop only."""

    def __init__(self, token: str, status: ApplicationStatus) -> None:
        super().__init__()
        self.token = token
        self._status = status
        self._has_news.set()

    def put(self, status: ApplicationStatus) -> None:
        """Replace the state; the client receives it if it differs."""
        if status != self._status:
            self._status = status
            self._has_news.set()

    async def next_status(self, seconds: float) -> ApplicationStatus | None:
        """Return the state once it is new, or None if it is not after `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_news.wait(), seconds)
        if not self._has_news.is_set():
            return None
        self._has_news.clear()
        return self._status


class ApplicationStreams(LiveStreams[ApplicationStream]):
    """All streams of applications of this process, which are loaded together."""

    contents = "applications"

    def __init__(
        self,
        applications: Applications,
        *,
        heartbeat_interval: timedelta = HEARTBEAT_INTERVAL,
        poll_interval: timedelta = POLL_INTERVAL,
        shortest_pause: timedelta = SHORTEST_PAUSE,
    ) -> None:
        super().__init__(poll_interval, shortest_pause)
        self._applications = applications
        self._heartbeat_interval = heartbeat_interval.total_seconds()
        self._open_by_token: Counter[str] = Counter()
        self._open_by_client: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def listen(self, token: str, caller: Caller) -> AsyncIterator[ApplicationStream]:
        """Open a stream. Raises `ApplicationNotFound`, `TooManyStreams` and `DatabaseUnavailable`."""
        stream = ApplicationStream(token, await self._applications.find(token))
        with self._reserved(token, caller.limit_key):
            self._add(stream)
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

    @contextlib.contextmanager
    def _reserved(self, token: str, client: str) -> Iterator[None]:
        if (
            self._open_by_token.total() >= MAX_STREAMS
            or self._open_by_token[token] >= MAX_STREAMS_PER_APPLICATION
            or self._open_by_client[client] >= MAX_STREAMS_PER_CLIENT
        ):
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

    async def _read(self) -> None:
        streams = list(self._streams)
        found = await self._applications.find_all(sorted({stream.token for stream in streams}))
        for stream in streams:
            if stream.token in found:
                stream.put(found[stream.token])
            else:
                stream.close()
