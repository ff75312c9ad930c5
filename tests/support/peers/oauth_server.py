"""The chat platform over real HTTP on loopback; a test may make any of its paths fail."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit

from tests.support.peers.http_peer import HttpPeer, body_of
from tests.support.peers.oauth_platform import (
    CLIENT_ID,
    CLIENT_SECRET,
    ChatPerson,
    Platform,
    PlatformReply,
    PlatformRequest,
)

Fault = Callable[[BaseHTTPRequestHandler], None]
"""Replies in place of the platform."""


class OAuthServer(HttpPeer):
    """Context manager that serves the platform, which may be changed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.platform = Platform()
        self.requests: list[str] = []
        """Path of every request, oldest first."""
        self._faults: dict[str, Fault] = {}

    def config(self, platform: str = "discord", **keys: object) -> dict[str, object]:
        """Return the section `chat` of a config for this platform."""
        return {
            "platform": platform,
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "authorize_url": f"{self.address}/authorize",
            "token_url": f"{self.address}/token",
            "profile_url": f"{self.address}/users/@me",
            "limits_per_client": ["100000 per minute"],
            **({"scopes": "identify"} if platform == "custom" else {}),
            **keys,
        }

    def join(self, person: ChatPerson) -> ChatPerson:
        """Add a person's account, or change their profile."""
        self.platform.people[person.id] = person
        return person

    @contextmanager
    def fault(self, path: str, fault: Fault) -> Iterator[None]:
        """Context manager that lets this path reply with the fault."""
        self._faults[path] = fault
        try:
            yield
        finally:
            self.mend(path)

    def mend(self, path: str) -> None:
        """Remove the fault of this path."""
        self._faults.pop(path, None)

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Reply to one request, with the fault of its path if there is one."""
        path = urlsplit(handler.path).path
        self.requests.append(path)
        body = body_of(handler).decode()
        fault = self._faults.get(path)
        if fault is not None:
            fault(handler)
            return
        fields = dict(parse_qsl(body if handler.command == "POST" else urlsplit(handler.path).query))
        headers = dict(handler.headers.items())
        request = PlatformRequest(handler.command, self.address + handler.path, fields, headers)
        reply = self._reply_to(path, request, headers)
        send(handler, reply.status, reply.told, reply.headers)

    def _reply_to(self, path: str, request: PlatformRequest, headers: Mapping[str, str]) -> PlatformReply:
        if path == "/authorize":
            cookie = SimpleCookie(headers.get("Cookie", "")).get("account")
            return self.platform.authorize(request, self.platform.people.get(cookie.value) if cookie else None)
        if path == "/token":
            return self.platform.token(request)
        return self.platform.profile(request, path)


def send(handler: BaseHTTPRequestHandler, status: int, told: object, headers: Mapping[str, str] | None = None) -> None:
    """Send a response: text and bytes as they are, anything else as JSON."""
    body = told if isinstance(told, bytes) else told.encode() if isinstance(told, str) else json.dumps(told).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
