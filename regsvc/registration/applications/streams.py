"""Live streams of applications: each client receives its application at once, and again whenever it changes.

While at least one client listens, the applications that clients listen to are loaded together every 1.5 seconds, and at
once after a change made in this process: what another process, the sync or SQL changes is not missed. Of several
changes between two loads, a client receives the last state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from regsvc.auth.rate_limits import StatusRateLimits
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.errors import TooManyStreams
from regsvc.http.live_streams import EVENT_STREAM, LiveStream, LiveStreams, send_events
from regsvc.http.route import APPLICATION_TOKEN, PUBLIC, Routes
from regsvc.registration.applications.status import (
    ApplicationQuery,
    Applications,
    ApplicationStatus,
    application_reply,
    token_of,
)
from regsvc.runtime.event_streams import HEARTBEAT, PREAMBLE, encode_event

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


MAX_STREAMS: Final = 200
MAX_STREAMS_PER_APPLICATION: Final = 5
HEARTBEAT_INTERVAL: Final = timedelta(seconds=20)
POLL_INTERVAL: Final = timedelta(seconds=1.5)
SHORTEST_PAUSE: Final = timedelta(seconds=0.25)
"""Between two loads, however much changes."""


class ApplicationStream(LiveStream):
    """The last state of one application, for one client. Use on the event loop only."""

    def __init__(self, token: str, status: ApplicationStatus, caller: Caller) -> None:
        super().__init__()
        self.token = token
        self.client = caller.limit_key
        self.network = caller.network_key
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

    @contextlib.asynccontextmanager
    async def listen(self, token: str, caller: Caller) -> AsyncIterator[ApplicationStream]:
        """Open a stream. Raises `ApplicationNotFound`, `TooManyStreams` and `DatabaseUnavailable`."""
        stream = ApplicationStream(token, await self._applications.find(token), caller)
        self._make_room(stream)
        self._add(stream)
        try:
            yield stream
        finally:
            self._remove(stream)

    async def statuses(self, stream: ApplicationStream) -> AsyncIterator[ApplicationStatus | None]:
        """Yield the application now and after each change, and None as a heartbeat. Ends with the application."""
        while not stream.is_closed:
            status = await stream.next_status(self._heartbeat_interval)
            if not stream.is_closed:
                yield status

    def _make_room(self, newcomer: ApplicationStream) -> None:
        """End a stream for the newcomer if there are `MAX_STREAMS`: the oldest of the client with the most.

        Networks are compared before their clients, so however many addresses a network has, it keeps no other one out.
        Raises `TooManyStreams` if that is the newcomer's own client, or if its application has too many.
        """
        if sum(stream.token == newcomer.token for stream in self._streams) >= MAX_STREAMS_PER_APPLICATION:
            raise TooManyStreams
        if len(self._streams) < MAX_STREAMS:
            return
        streams = (newcomer, *self._streams)
        in_network = Counter(stream.network for stream in streams)
        of_client = Counter(stream.client for stream in streams)
        largest = max(streams, key=lambda stream: (in_network[stream.network], of_client[stream.client]))
        if largest is newcomer:
            raise TooManyStreams
        self._remove(largest)
        largest.close()

    async def _read(self) -> None:
        streams = list(self._streams)
        found = await self._applications.find_all(sorted({stream.token for stream in streams}))
        for stream in streams:
            if stream.token in found:
                stream.put(found[stream.token])
            else:
                stream.close()


@ROUTES.add(
    "GET",
    "/api/application/events",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.RateLimited,
    errors.TooManyStreams,
    media_type=EVENT_STREAM,
    credentials=(APPLICATION_TOKEN,),
)
async def stream_application(
    call: Call, application_streams: ApplicationStreams, status_limits: StatusRateLimits, query: ApplicationQuery
) -> None:
    """Stream an application, at once and within two seconds of any change, to clients with its token.

    Events are `application`; their `data` is what `GET /api/application` replies. A comment is sent every 20
    seconds. The stream ends with the application, and when the user's address changes. The number of streams is
    limited; a client that gets `too_many_streams` can still ask for the application from time to time.
    """
    status_limits.hit(call.address)
    streams = application_streams
    async with streams.listen(token_of(call, query), call.caller) as stream:
        await send_events(call, stream, _encode_each(call, streams.statuses(stream)))


async def _encode_each(call: Call, statuses: AsyncIterator[ApplicationStatus | None]) -> AsyncIterator[bytes]:
    yield PREAMBLE
    async for status in statuses:
        yield HEARTBEAT if status is None else encode_event("application", application_reply(call, status))
