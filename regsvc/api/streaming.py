"""Responses sent in chunks, no faster than the client reads them: long ones, and streams of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from regsvc.api.base import Access, ApiHandler
from regsvc.runtime.live_streams import LiveStream

EVENT_STREAM: Final = "text/event-stream"


async def write_chunk(handler: RequestHandler, chunk: bytes) -> bool:
    """Send a chunk (and the headers before the first one); return whether the client has taken it.

    A client that does not read is disconnected after `http.write_timeout` (`regsvc.api.connections`).
    """
    handler.write(chunk)
    try:
        await handler.flush()
    except StreamClosedError:
        return False
    return not cast(HTTP1Connection, handler.request.connection).stream.closed()


def disconnect(request: HTTPServerRequest) -> None:
    """Close the connection in the middle of a response, so that the client cannot take it for a complete one."""
    # The stream, not the connection: closing the connection would drop the future that a pending flush waits on.
    cast(HTTP1Connection, request.connection).stream.close()


class StreamHandler(ApiHandler):
    """Base of the handlers of server-sent events."""

    def initialize(self, access: Mapping[str, Access]) -> None:
        super().initialize(access)
        self._stream: LiveStream | None = None
        self._is_sending = False

    async def send_events(self, stream: LiveStream, chunks: AsyncIterator[bytes]) -> None:
        """Send the chunks of an open stream until it ends or the client disconnects; to HEAD, only the headers."""
        self.set_header("Content-Type", EVENT_STREAM)
        self.set_header("X-Accel-Buffering", "no")  # a proxy that buffers responses would never forward anything
        if self.request.method == "HEAD":
            return
        self._stream = stream
        stream.on_close = self._disconnect_blocked
        async for chunk in chunks:
            self._is_sending = True
            is_sent = await write_chunk(self, chunk)
            self._is_sending = False
            if not is_sent:
                return

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._stream is not None:
            self._stream.close()

    def _disconnect_blocked(self) -> None:
        """Disconnect a listener that is not reading, so that it cannot keep an ended stream open."""
        if self._is_sending:
            disconnect(self.request)
