"""Admin route with a stream of server-sent events, which lasts as long as the session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.streaming import disconnect, write_chunk
from regsvc.core import errors
from regsvc.runtime.event_streams import EventStream

EVENT_STREAM: Final = "text/event-stream"

_ID: Final = re.compile("[0-9]{1,18}")


class EventsHandler(ApiHandler):
    """Stream of events. Neither opening a stream nor listening counts as activity of the admin."""

    def initialize(self, access: Mapping[str, Access]) -> None:
        super().initialize(access)
        self._stream: EventStream | None = None
        self._is_sending = False

    @endpoint(errors.TooManyStreams, media_type=EVENT_STREAM)
    async def get(self) -> None:
        """Stream all changes of users and all runs of the sync from now on.

        Events are `user_registered`, `user_approved`, `user_rejected`, `user_banned`, `user_unbanned`, `user_deleted`
        (`username`, current `status`, `at`, `by`) and `sync_finished` (its counts, `at`, `by`); `data` is JSON. A
        comment is sent every 20 seconds. `Last-Event-ID` replays missed events, up to a limit; an event may then arrive
        twice. The stream ends with the session.
        """
        events = self.services.events
        async with events.listen(self.require_admin(), self._last_event_id) as self._stream:
            self._stream.on_close = self._disconnect_blocked
            self._set_stream_headers()
            async for chunk in events.chunks(self._stream):
                if not await self._send(chunk):
                    return

    def head(self) -> None:
        self._set_stream_headers()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._stream is not None:
            self._stream.close()

    async def _send(self, chunk: bytes) -> bool:
        self._is_sending = True
        is_sent = await write_chunk(self, chunk)
        self._is_sending = False
        return is_sent

    def _disconnect_blocked(self) -> None:
        """Disconnect a listener that is not reading, so that it cannot keep an ended stream open."""
        if self._is_sending:
            disconnect(self.request)

    def _set_stream_headers(self) -> None:
        self.set_header("Content-Type", EVENT_STREAM)
        self.set_header("X-Accel-Buffering", "no")  # a proxy that buffers responses would never forward anything

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
