"""A feed of releases on loopback, over real HTTP, with replies that the test chooses."""

import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.support.peers.http_peer import HttpPeer, headers_of

TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class FeedReply:
    """A reply of the feed. `length` is announced instead of the true one."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    is_silent: bool = False
    """Send no reply, but keep the connection open until the feed is closed."""


def release(version: str, page: str | None = None, **more: object) -> FeedReply:
    """Return a reply like GitHub's about the latest release."""
    told = {"tag_name": version, "html_url": page, "name": f"Release {version}", "draft": False, **more}
    return FeedReply(body=json.dumps(told).encode(), headers={"Etag": f'"{version}"'})


class ReleaseFeed(HttpPeer):
    """A context manager: it replies while it is open. `requests` are the headers of each request, oldest first."""

    protocol_version = "HTTP/1.1"

    def __init__(self, answer: FeedReply, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.answer = answer
        self.requests: list[dict[str, str]] = []
        self._news = threading.Condition()

    @property
    def address(self) -> str:
        return f"{super().address}/releases/latest"

    def wait_for_requests(self, count: int) -> None:
        """Wait until there were so many requests; AssertionError after some seconds."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= count, TIMEOUT), (
                f"asked {len(self.requests)} times"
            )

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Record the request and send `answer`."""
        with self._news:
            self.requests.append(headers_of(handler))
            self._news.notify_all()
        answer = self.answer
        if answer.is_silent:
            self.is_over.wait(30)
            handler.close_connection = True
            return
        tag = answer.headers.get("Etag")
        is_known = tag is not None and handler.headers.get("If-None-Match") == tag
        body = b"" if is_known else answer.body
        handler.send_response(304 if is_known else answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(answer.length if answer.length is not None else len(body)))
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:  # the client has closed the connection
            handler.close_connection = True
