"""A web server on loopback, on threads of its own: the base of all peers that speak HTTP."""

import ssl
import sys
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.ports import free_port

HOST = "127.0.0.1"


class HttpPeer(ABC):
    """A context manager, or `start` and `stop`, which may alternate: the port stays. Subclasses `respond`."""

    protocol_version = "HTTP/1.0"

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = free_port(HOST)
        self.is_over = threading.Event()
        """Set when it stops: what never replies waits for it."""
        self._tls = tls
        self._server: ThreadingHTTPServer | None = None

    @property
    def address(self) -> str:
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}"

    @abstractmethod
    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Reply to one GET or POST."""

    def start(self) -> None:
        """Return once the port is open."""
        self.is_over.clear()
        server = _Server((HOST, self.port), self._handler_class())
        if self._tls is not None:
            server.socket = self._tls.wrap_socket(server.socket, server_side=True)
        self._server = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Close the port, as an outage does; does nothing if it is closed."""
        self.is_over.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = peer.protocol_version

            def do_GET(self) -> None:
                peer.respond(self)

            def do_POST(self) -> None:
                peer.respond(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: tests read what the peer keeps."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 100

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early: they are part of the stories."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def headers_of(handler: BaseHTTPRequestHandler) -> dict[str, str]:
    """Return the request's headers; names are in lower case."""
    return {name.lower(): value for name, value in handler.headers.items()}


def body_of(handler: BaseHTTPRequestHandler) -> bytes:
    return handler.rfile.read(int(handler.headers["Content-Length"] or 0))
