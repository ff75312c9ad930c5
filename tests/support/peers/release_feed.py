"""A feed of releases on loopback, over real HTTP, with replies that the test chooses."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

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


class ReleaseFeed:
    """A context manager: it replies while it is open. `requests` are the headers of each request, oldest first."""

    def __init__(self, answer: FeedReply) -> None:
        self.answer = answer
        self.requests: list[dict[str, str]] = []
        self._is_over = threading.Event()
        self._news = threading.Condition()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/releases/latest"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for_requests(self, count: int) -> None:
        """Wait until there were so many requests; AssertionError after some seconds."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= count, TIMEOUT), (
                f"asked {len(self.requests)} times"
            )

    def note(self, handler: BaseHTTPRequestHandler) -> None:
        """Record a request."""
        with self._news:
            self.requests.append({name.lower(): value for name, value in handler.headers.items()})
            self._news.notify_all()

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        feed = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                feed.note(self)
                feed.reply(self)

            def log_message(self, format: str, *args: Any) -> None:
                """A test reads `requests` instead."""

        return Handler

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        """Send `answer`."""
        answer = self.answer
        if answer.is_silent:
            self._is_over.wait(30)
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
