"""A real web server on loopback that keeps the calls it receives and can be made to fail."""

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.ports import free_port

HOST = "127.0.0.1"
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


class WebhookReceiver:
    """Runs on threads of its own. `start` and `stop` may alternate; port and calls stay."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = free_port(HOST)
        self.calls: list[Call] = []
        self._tls = tls
        self._usual = Answer()
        self._next: list[Answer] = []
        self._arrived = threading.Condition()
        self._is_open = threading.Event()
        self._is_open.set()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}{PATH}"

    def start(self) -> None:
        """Returns once the port is open."""
        server = _Server((HOST, self.port), self._handler())
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True)
        self._server = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Closes the port, as an outage does; harmless when not running."""
        self.release()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

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

    def wait_for(self, count: int, *, counts: Callable[[Call], bool] = lambda _call: True) -> list[Call]:
        """The first `count` calls; AssertionError if fewer arrived. `counts` selects the calls to count."""

        def looked_at() -> list[Call]:
            return [call for call in self.calls if counts(call)]

        with self._arrived:
            has_come = self._arrived.wait_for(lambda: len(looked_at()) >= count, WAIT)
        assert has_come, f"{len(looked_at())} of {count} calls came"
        return looked_at()[:count]

    def _take(self, call: Call) -> Answer:
        with self._arrived:
            self.calls.append(call)
            self._arrived.notify_all()
            answer = self._next.pop(0) if self._next else self._usual
        self._is_open.wait(WAIT)
        return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = receiver._take(Call(self.path, headers, body))
                self.send_response(answer.status)
                for name, value in (answer.headers or {}).items():
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores callers that disconnect early: they are part of the stories."""
