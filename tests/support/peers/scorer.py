"""A scoring service on loopback with OpenAI's chat completions API, whose replies a test chooses."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.peers.http_peer import HttpPeer, body_of, headers_of

KEY = "sk-a-key-that-nobody-may-read"
TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class ScoringReply:
    """One reply of the service."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_silent: bool = False
    """Send nothing, but keep the connection until the service is closed or `release` is called."""


@dataclass(frozen=True)
class ScoringRequest:
    """One request: the path, the headers in lower case, and the parsed body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def instructions(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def answer(self) -> str:
        """The applicant's answer."""
        return str(json.loads(self.body["messages"][1]["content"])["answer"])


def score_reply(score: object, reason: str = "sensible") -> ScoringReply:
    """Return a reply in the requested format."""
    return completion(json.dumps({"score": score, "reason": reason}))


def completion(content: str | None) -> ScoringReply:
    """Return a valid completion whose message is this text."""
    message = {"role": "assistant", "content": content}
    completion = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": {}}
    return ScoringReply(body=json.dumps(completion).encode())


def chunked_reply(body: bytes) -> ScoringReply:
    """Return a chunked reply, whose length is not known beforehand."""
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    return ScoringReply(body=chunked, headers={"Transfer-Encoding": "chunked"})


NO_REPLY = ScoringReply(is_silent=True)


class ScoringService(HttpPeer):
    """Context manager that replies to every request with `reply`. `requests` is oldest first."""

    protocol_version = "HTTP/1.1"

    def __init__(self, reply: ScoringReply) -> None:
        super().__init__()
        self.reply = reply
        self.requests: list[ScoringRequest] = []
        self.most_at_a_time = 0
        self._at_a_time = 0
        self._news = threading.Condition()

    @property
    def url(self) -> str:
        """Base URL of the service."""
        return f"{self.address}/v1"

    def release(self) -> None:
        """End requests that wait because of `NO_REPLY`, without a reply."""
        self.is_over.set()

    def wait_for_requests(self, count: int) -> None:
        """Wait until `count` requests came; AssertionError after some seconds."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= count, TIMEOUT), (
                f"asked {len(self.requests)} times"
            )

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Record the request and reply; a GET is a redirection that was followed."""
        with self._news:
            body = json.loads(body_of(handler) or b"{}")
            self.requests.append(ScoringRequest(handler.path, headers_of(handler), body))
            self._at_a_time += 1
            self.most_at_a_time = max(self.most_at_a_time, self._at_a_time)
            said = self.reply
            self._news.notify_all()
        try:
            self._say(said, handler)
        finally:
            with self._news:
                self._at_a_time -= 1

    def _say(self, said: ScoringReply, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        if said.is_silent:
            self.is_over.wait(30)
            return
        handler.send_response(said.status)
        for name, value in {"Content-Type": "application/json", **said.headers}.items():
            handler.send_header(name, value)
        if not {"Content-Length", "Transfer-Encoding"} & said.headers.keys():
            handler.send_header("Content-Length", str(len(said.body)))
        try:
            handler.end_headers()
            handler.wfile.write(said.body)
        except OSError:  # the client closed the connection
            return
