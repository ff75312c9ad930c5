"""Admin route with a stream of server-sent events, which lasts as long as the session."""

from __future__ import annotations

import re
from typing import Final

from regsvc.api.endpoint import endpoint
from regsvc.api.streaming import EVENT_STREAM, StreamHandler
from regsvc.core import errors

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
