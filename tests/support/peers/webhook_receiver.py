"""A real web server on loopback that keeps the calls it receives and can be made to fail."""

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.peers.http_peer import HttpPeer, body_of, headers_of

PATH = "/hooks/a-secret-token"
WAIT = 60.0  # seconds a test waits for a call before it fails


@dataclass(frozen=True)
class Call:
    """One POST; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        payload = json.loads(self.body)
        assert isinstance(payload, dict)
        return payload

    @property
    def payload(self) -> dict[str, Any]:
        """The part for programs."""
        payload = self.json["companion"]
        assert isinstance(payload, dict)
        return payload

    @property
    def event(self) -> tuple[str, str]:
        """The event and the username."""
        return self.payload["event"], self.payload["username"]

    def is_signed_with(self, key: bytes) -> bool:
        """Verifies the signature as a receiver would, from the standard's text and without any code of ours."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return self.headers["webhook-signature"] == f"v1,{expected}"


@dataclass(frozen=True)
class Answer:
    """A response to a call."""

    status: int = 204
    headers: Mapping[str, str] | None = None
    body: bytes = b""


class WebhookReceiver(HttpPeer):
    """Keeps its calls when it is stopped and started."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.calls: list[Call] = []
        self._usual = Answer()
        self._next: list[Answer] = []
        self._arrived = threading.Condition()
        self._is_open = threading.Event()
        self._is_open.set()

    @property
    def url(self) -> str:
        return f"{self.address}{PATH}"

    def answer(self, *answers: Answer) -> None:
        """Sends these responses to the next calls, one each."""
        self._next.extend(answers)

    def always_answer(self, answer: Answer) -> None:
        """Sends this response from now on."""
        self._usual = answer

    def hold(self) -> None:
        """Makes callers wait for their response until `release`."""
        self._is_open.clear()

    def release(self) -> None:
        self._is_open.set()

    def stop(self) -> None:
        self.release()
        super().stop()

    def wait_for(self, count: int, *, counts: Callable[[Call], bool] = lambda _call: True) -> list[Call]:
        """The first `count` calls; AssertionError if fewer arrived. `counts` selects the calls to count."""

        def looked_at() -> list[Call]:
            return [call for call in self.calls if counts(call)]

        with self._arrived:
            has_come = self._arrived.wait_for(lambda: len(looked_at()) >= count, WAIT)
        assert has_come, f"{len(looked_at())} of {count} calls came"
        return looked_at()[:count]

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Record a call and send its response."""
        if handler.command != "POST":
            handler.send_error(501)
            return
        with self._arrived:
            self.calls.append(Call(handler.path, headers_of(handler), body_of(handler)))
            self._arrived.notify_all()
            answer = self._next.pop(0) if self._next else self._usual
        self._is_open.wait(WAIT)
        handler.send_response(answer.status)
        for name, value in (answer.headers or {}).items():
            handler.send_header(name, value)
        if answer.status != 204:
            handler.send_header("Content-Length", str(len(answer.body)))
        handler.end_headers()
        handler.wfile.write(answer.body)
