"""WebSocket to which OneBot implementations connect, with the access token in a header or in the query."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from tornado.httputil import HTTPServerRequest
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from regsvc.api.base import BaseHandler
from regsvc.team_chat.onebot import OneBotConnection, OneBotConnections

_MAX_MESSAGE: Final = 1024 * 1024
_PING_INTERVAL: Final = 30.0
_ROLES: Final = ("universal", "api", "event")


class OneBotHandler(BaseHandler, WebSocketHandler):
    """Connection of one implementation. A plain GET with the token tells the doctor about the groups."""

    _connections: OneBotConnections
    _connection: OneBotConnection | None = None

    @property
    def max_message_size(self) -> int:
        return _MAX_MESSAGE

    @property
    def ping_interval(self) -> float:
        return _PING_INTERVAL

    def check_origin(self, origin: str) -> bool:
        """Accept any: the token is no cookie, which pages of others could use."""
        return True

    async def get(self, *args: Any, **kwargs: Any) -> None:
        all_connections, token = self.services.team_chat.onebot, _find_token(self.request)
        found = next((it for it in all_connections if it.accepts(token)), None)
        if found is None:
            for connections in all_connections:
                connections.refuse()
            self.set_status(401)
            self.finish()
        elif "Upgrade" not in self.request.headers:
            self.set_header("Content-Type", "application/json")
            self.finish(msgspec.json.encode(found.states))
        else:
            self._connections = found
            await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        self.application.begin(self)
        headers = self.request.headers
        role = headers.get("X-Client-Role", "").lower()
        account = headers.get("X-Self-ID", "")
        self._connection = OneBotConnection(account, role if role in _ROLES else _ROLES[0], self._send, self.close)
        self._connections.connect(self._connection)

    def on_message(self, message: str | bytes) -> None:
        if self._connection is not None:
            self._connections.receive(self._connection, message)

    def on_connection_close(self) -> None:
        """Let Tornado call `on_close`; the base class for requests only counts."""
        WebSocketHandler.on_connection_close(self)

    def on_close(self) -> None:
        if self._connection is not None:
            self._connections.disconnect(self._connection)
        self.application.end(self)

    async def _send(self, text: str) -> None:
        try:
            await self.write_message(text)
        except WebSocketClosedError:
            raise OSError("closed") from None


def _find_token(request: HTTPServerRequest) -> str:
    """Return the access token; some implementations can send it only in the query, which is never logged."""
    written = re.fullmatch(r"(?:Bearer|Token)\s+(\S+)", request.headers.get("Authorization", "").strip(), re.IGNORECASE)
    if written is not None:
        return written[1]
    return request.query_arguments.get("access_token", [b""])[-1].decode("utf-8", "replace")
