"""The stream of events, for admins: server-sent events, for as long as the session stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.streaming import cut_off, write_chunk
from regsvc.core import errors
from regsvc.runtime.event_streams import EventStream

EVENT_STREAM: Final = "text/event-stream"

_PATIENCE: Final = timedelta(seconds=20)  # for a listener to take what happened
_ID: Final = re.compile("[0-9]{1,18}")


class EventsHandler(ApiHandler):
    """Listening is no activity, and neither is to begin: an idle admin's time goes on running."""

    def initialize(self, access: Mapping[str, Access]) -> None:
        super().initialize(access)
        self._stream: EventStream | None = None
        self._is_sending = False

    @endpoint(errors.TooManyStreams, media_type=EVENT_STREAM)
    async def get(self) -> None:
        """Everything that happens to users, and every run of the sync, from now on.

        Events are `user_registered`, `user_approved`, `user_rejected`, `user_banned`, `user_unbanned`, `user_deleted`
        (`username`, `status` by now, `at`, `by`) and `sync_finished` (its numbers, `at`, `by`); `data` is JSON. A
        comment comes every 20 seconds. `Last-Event-ID` brings what happened meanwhile, as far as it is not too much;
        an event may come twice then. The stream ends with the session.
        """
        events = self.services.events
        async with events.listen(self.require_admin(), self._last_event_id) as self._stream:
            self._stream.on_close = self._let_go
            self._begin()
            async for chunk in events.chunks(self._stream):
                if not await self._send(chunk):
                    return

    def head(self) -> None:
        self._begin()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._stream is not None:
            self._stream.close()

    async def _send(self, chunk: bytes) -> bool:
        self._is_sending = True
        is_taken = await write_chunk(self, chunk, _PATIENCE)
        self._is_sending = False
        return is_taken

    def _let_go(self) -> None:
        """The stream ends, and a listener who takes nothing must not keep it."""
        if self._is_sending:
            cut_off(self.request)

    def _begin(self) -> None:
        self.set_header("Content-Type", EVENT_STREAM)
        self.set_header("X-Accel-Buffering", "no")  # a proxy that collects answers would collect for ever

    @property
    def _last_event_id(self) -> int | None:
        """Where the listener was; None for a first visit, and for an id that is none of ours."""
        given = self.request.headers.get("Last-Event-ID", "").strip()
        return int(given) if _ID.fullmatch(given) else None

    async def _authorise(self) -> None:
        bearer = self._bearer
        if bearer is None:
            raise errors.Unauthorized
        sessions = self.services.sessions
        self._session = await self.run(sessions.authenticate_admin, bearer, self.caller, is_activity=False)
