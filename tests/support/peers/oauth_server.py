"""The chat platform over real HTTP on loopback; a test may make any of its paths fail."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

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


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early; report anything else, which is a bug in the test."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class OAuthServer:
    """Context manager that serves the platform, which may be changed meanwhile."""

    def __init__(self) -> None:
        self.platform = Platform()
        self.requests: list[str] = []
        """Path of every request, oldest first."""
        self.is_over = threading.Event()
        """Set when it closes; a fault that never replies waits for it."""
        self._faults: dict[str, Fault] = {}

    def __enter__(self) -> Self:
        self._http = _QuietServer(("127.0.0.1", 0), self._handler_class())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.is_over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

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

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        """Reply to one request, with the fault of its path if there is one."""
        path = urlsplit(handler.path).path
        self.requests.append(path)
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0))).decode()
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

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.reply(self)

            def do_POST(self) -> None:
                server.reply(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: tests read `requests`."""

        return Handler


def send(handler: BaseHTTPRequestHandler, status: int, told: object, headers: Mapping[str, str] | None = None) -> None:
    """Send a response: text and bytes as they are, anything else as JSON."""
    body = told if isinstance(told, bytes) else told.encode() if isinstance(told, str) else json.dumps(told).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
