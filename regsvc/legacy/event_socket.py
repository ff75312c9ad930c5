"""WebSocket at `/` for front ends that reload their lists at any message, with the access token in the query.

Only for them: a token in an address reaches the logs of proxies; `/events` takes it in a header.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from regsvc.config.live import LiveConfig
from regsvc.core.addresses import Caller, VerifiedSession, limit_key
from regsvc.core.errors import Category, Refusal
from regsvc.http.call import BaseHandler
from regsvc.runtime.event_streams import Event, EventStreams

SOCKET_PATH: Final = "/"

# RFC 6455, 7.4.1
_GOING_AWAY: Final = 1001
_POLICY_VIOLATION: Final = 1008
_INTERNAL_ERROR: Final = 1011
_TRY_AGAIN_LATER: Final = 1013

_CONNECTED: Final = '{"type":"connected"}'
_MAX_MESSAGE: Final = 4096  # nothing is expected from clients


@dataclass(frozen=True)
class SocketHandshake(Matcher):
    """Tornado's matcher of the handshake of a WebSocket at `/`, under `http.legacy_status`."""

    live: LiveConfig

    def match(self, request: HTTPServerRequest) -> dict[str, object] | None:
        upgrade = request.headers.get("Upgrade", "").strip().lower()
        is_handshake = request.method == "GET" and request.path == SOCKET_PATH and upgrade == "websocket"
        return {} if is_handshake and self.live.current.http.legacy_status else None


def socket_rule(live: LiveConfig) -> tuple[Any, ...]:
    """Return Tornado's rule for the WebSocket, which comes before that for the home page."""
    return SocketHandshake(live), EventSocketHandler


class EventSocketHandler(BaseHandler, WebSocketHandler):
    """WebSocket that sends an admin each event as a JSON object, its name as `type`.

    The first message, `connected`, makes a front end load what it missed before.
    A token that is not an admin's, and the end of the session, close it with 1008. Like `/events`, it is no activity.
    """

    _forwarding: asyncio.Task[None] | None = None

    @property
    def max_message_size(self) -> int:
        return _MAX_MESSAGE

    def check_origin(self, origin: str) -> bool:
        """Accept pages of this host, of our public address and of the configured origins."""
        config = self.config
        public = urlsplit(config.base_url())
        allowed = (*config.http.allowed_origins, f"{public.scheme}://{public.netloc}")
        return super().check_origin(origin) or origin.lower() in allowed

    def open(self) -> None:
        self.application.begin(self)
        # a task: messages of the client, such as the one that closes, are read only after `open` has returned
        self._forwarding = asyncio.create_task(self._serve(), name="event-socket")

    def on_message(self, message: str | bytes) -> None:
        """Ignore what clients send."""

    def on_connection_close(self) -> None:
        """Let Tornado call `on_close`; the base class for requests only counts."""
        WebSocketHandler.on_connection_close(self)

    def on_close(self) -> None:
        if self._forwarding is not None:
            self._forwarding.cancel()
        self.application.end(self)

    async def _serve(self) -> None:
        """Send events until the session, the client or this process ends, and close the connection."""
        try:
            self.close(await self._forward(await self._authenticate()))
        except Refusal as refusal:
            has_no_right = refusal.category in (Category.UNAUTHENTICATED, Category.FORBIDDEN)
            self.close(_POLICY_VIOLATION if has_no_right else _TRY_AGAIN_LATER, refusal.code)
        except WebSocketClosedError:
            self.close()
        except Exception:
            self.log_exception(*sys.exc_info())
            self.close(_INTERNAL_ERROR)

    async def _authenticate(self) -> VerifiedSession:
        """Return the session of the token in the query; raises Unauthorized and Forbidden."""
        token = self.request.query_arguments.get("token", [b""])[-1].decode("ascii", "replace")
        address = self.request.remote_ip or ""
        caller = Caller(address, limit_key(address), self.config.server.language, self.request_id)
        verify = self.application.sessions.authenticate_admin
        return await self.application.worker.run(verify, token, caller, is_activity=False)

    async def _forward(self, session: VerifiedSession) -> int:
        """Send events; return the code to close with."""
        events = self.application.features.of_class(EventStreams)
        async with events.listen(session, None) as stream:
            await self.write_message(_CONNECTED)
            async for batch in events.batches(stream):
                await self._send(batch)
            return _GOING_AWAY if stream.is_closed else _POLICY_VIOLATION

    async def _send(self, batch: Iterable[Event]) -> None:
        """Send each event, or a ping if there is none.

        Sync runs that changed nothing, which have no id, are left out: they would make every list load again.
        """
        is_idle = True
        for event in batch:
            if event.id is None:
                continue
            await self.write_message(msgspec.json.encode({"type": event.name, **event.data}).decode())
            is_idle = False
        if is_idle:
            self.ping()
