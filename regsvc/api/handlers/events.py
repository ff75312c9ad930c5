"""Admin route with a stream of server-sent events, which lasts as long as the session."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from regsvc.api.base import Access, ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.core import errors
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


_ID: Final = re.compile("[0-9]{1,18}")


class EventsHandler(StreamHandler):
    """Stream of events. Neither opening a stream nor listening counts as activity of the admin."""

    @endpoint(errors.TooManyStreams, media_type=EVENT_STREAM)
    async def get(self) -> None:
        """Stream all changes of users and all runs of the sync from now on.

        Events are `user_registered`, `user_approved`, `user_rejected`, `user_banned`, `user_unbanned`, `user_deleted`,
        `user_answers_changed` (`username`, current `status`, `at`, `by`) and `sync_finished` (its counts, `at`, `by`);
        `data` is JSON. A comment is sent every 20 seconds. `Last-Event-ID` replays missed events, up to a limit; an
        event may then arrive twice. The stream ends with the session.
        """
        events = self.services.events
        async with events.listen(self.require_admin(), self._last_event_id) as stream:
            await self.send_events(stream, events.chunks(stream))

    @property
    def _last_event_id(self) -> int | None:
        """The id of the last event that the listener received; None for a first visit and for a foreign id."""
        value = self.request.headers.get("Last-Event-ID", "").strip()
        return int(value) if _ID.fullmatch(value) else None

    async def _authorize(self) -> None:
        bearer = self._bearer
        if bearer is None:
            raise errors.Unauthorized
        sessions = self.services.sessions
        self._session = await self.run(sessions.authenticate_admin, bearer, self.caller, is_activity=False)
