"""Live streams: server-sent events, a poller that runs while clients listen, and the end of all streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar, cast

from regsvc.core.errors import Refusal
from regsvc.core.exceptions import describe_exception

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection
    from tornado.httputil import HTTPServerRequest
    from tornado.web import RequestHandler

    from regsvc.http.call import Call

log = logging.getLogger(__name__)


class LiveStream:
    """Stream to one client. Use on the event loop only."""

    def __init__(self) -> None:
        self._has_news = asyncio.Event()
        self.is_closed = False
        self.on_close: Callable[[], None] = lambda: None
        """Called once, so that a writer blocked on a slow client can be interrupted."""

    def close(self) -> None:
        """End the stream; what was not sent yet is dropped."""
        if not self.is_closed:
            self.is_closed = True
            self._has_news.set()
            self.on_close()


S = TypeVar("S", bound=LiveStream)


class LiveStreams(ABC, Generic[S]):
    """All streams of one kind in this process, fed by one poller. Use on the event loop only, except for `wake`."""

    contents: ClassVar[str]
    """Plural noun for what is streamed, as it appears in the log."""

    def __init__(self, poll_interval: timedelta, shortest_pause: timedelta = timedelta(0)) -> None:
        """`shortest_pause`: between two reads, however much changes."""
        self._poll_interval = poll_interval.total_seconds()
        self._shortest_pause = shortest_pause.total_seconds()
        self._streams: dict[S, None] = {}
        """The open streams, the oldest first."""
        self._wakeup = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def wake(self) -> None:
        """Read now. Call after the transaction that changed something; safe from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wakeup.set)

    def close(self) -> None:
        """End all streams, and every one opened later."""
        self._is_closed = True
        for stream in self._streams:
            stream.close()

    @abstractmethod
    async def _read(self) -> None:
        """Read what is new and hand it to the streams."""

    @property
    def _is_idle(self) -> bool:
        return self._poller is None or self._poller.done()

    def _add(self, stream: S) -> None:
        """Add a stream, and start the poller if it is not running. While closed, the stream ends at once."""
        if self._is_closed:
            stream.close()
        self._streams[stream] = None
        if self._is_idle:
            self._loop = asyncio.get_running_loop()
            self._poller = asyncio.create_task(self._poll(), name=self.contents)

    def _remove(self, stream: S) -> None:
        """Remove a stream; it may have been removed before."""
        self._streams.pop(stream, None)

    async def _poll(self) -> None:
        while self._streams:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), self._poll_interval)
            self._wakeup.clear()
            try:
                await self._read()
            except Refusal as refusal:  # what changes during a database outage is sent when it is over
                log.debug("%s are delayed: %s", self.contents, refusal.code)
            except Exception as bug:
                log.error("cannot read %s for their streams: %s", self.contents, describe_exception(bug))
            await asyncio.sleep(self._shortest_pause)


EVENT_STREAM: Final = "text/event-stream"


async def write_chunk(handler: RequestHandler, chunk: bytes) -> bool:
    """Send a chunk (and the headers before the first one); return whether the client has taken it.

    A client that does not read is disconnected after `http.write_timeout` (`regsvc.http.connections`).
    """
    handler.write(chunk)
    try:
        await handler.flush()
    except _closed_error():
        return False
    return not cast("HTTP1Connection", handler.request.connection).stream.closed()


def _closed_error() -> type[OSError]:
    """Return Tornado's error of a closed stream: loaded where anything is served, but not for commands."""
    from tornado.iostream import StreamClosedError

    return StreamClosedError


def disconnect(request: HTTPServerRequest) -> None:
    """Close the connection in the middle of a response, so that the client cannot take it for a complete one."""
    # The stream, not the connection: closing the connection would drop the future that a pending flush waits on.
    cast("HTTP1Connection", request.connection).stream.close()


async def send_events(call: Call, stream: LiveStream, chunks: AsyncIterator[bytes]) -> None:
    """Send the chunks of an open stream until it ends or the client disconnects; to HEAD, only the headers."""
    call.set_header("Content-Type", EVENT_STREAM)
    call.set_header("X-Accel-Buffering", "no")  # a proxy that buffers responses would never forward anything
    if call.request.method == "HEAD":
        return
    is_sending = False

    def disconnect_blocked() -> None:
        """Disconnect a listener that is not reading, so that it cannot keep an ended stream open."""
        if is_sending:
            disconnect(call.request)

    call.on_disconnect = stream.close
    stream.on_close = disconnect_blocked
    async for chunk in chunks:
        is_sending = True
        is_sent = await write_chunk(call, chunk)
        is_sending = False
        if not is_sent:
            return
