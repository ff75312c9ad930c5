"""Server-sent events: how a stream is sent, and the admin route with the stream of all changes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from regsvc.api.base import ApiHandler
from regsvc.api.route import Routes
from regsvc.core import errors
from regsvc.core.rights import Permission
from regsvc.runtime.live_streams import LiveStream

ROUTES: Final = Routes()

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


async def send_events(call: ApiHandler, stream: LiveStream, chunks: AsyncIterator[bytes]) -> None:
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


_ID: Final = re.compile("[0-9]{1,18}")


@ROUTES.add("GET", "/events", Permission.USERS_READ, errors.TooManyStreams, media_type=EVENT_STREAM, is_activity=False)
async def stream_events(call: ApiHandler) -> None:
    """Stream all changes of users and all runs of the sync from now on.

    Events are `user_registered`, `user_approved`, `user_rejected`, `user_banned`, `user_unbanned`, `user_reopened`,
    `user_deleted`, `user_answers_changed`, `user_note_added`, `user_asked`, `user_question_answered`,
    `user_answer_judged` (`username`, current `status`, `at`, `by`) and `sync_finished` (its counts, `at`, `by`);
    `data` is JSON. A comment is sent every 20 seconds. `Last-Event-ID` replays missed events, up to a limit; an event
    may then arrive twice. The stream ends with the session.
    """
    events = call.services.events
    last = call.request.headers.get("Last-Event-ID", "").strip()  # none at a first visit, or another server's
    async with events.listen(call.require_admin(), int(last) if _ID.fullmatch(last) else None) as stream:
        await send_events(call, stream, events.chunks(stream))
