"""Base classes of live streams: a poller that runs while clients listen, and the end of all streams."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Generic, TypeVar

from regsvc.core.errors import Refusal
from regsvc.core.exceptions import describe_exception

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
