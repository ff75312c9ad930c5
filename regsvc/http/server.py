"""The HTTP server: accepts connections within limits, and survives a lack of file descriptors."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError

from regsvc.config.sections import Config
from regsvc.http.application import ApiApplication
from regsvc.http.connections import Connections
from regsvc.http.hops import HintKind, HopWatch, Relayed, is_near
from regsvc.http.proxy_protocol import begins_header, find_client, read_header

log = logging.getLogger(__name__)

MAX_HEADER_BYTES: Final = 32 * 1024
"""Above it, Tornado disconnects without an answer; the limit that is answered is in `tornado_application`."""

_MAX_BUFFER_BYTES: Final = 1024 * 1024
_TORNADO_MAX_BODY: Final = 10**30  # it would disconnect without an answer; the limit that is answered is a route's
_MAX_UNSENT_BYTES: Final = 128 * 1024  # of an answer in the kernel, which counts them as memory of the service
_ACCEPTED_AT_ONCE: Final = 128
_ACCEPT_PAUSE: Final = 1.0  # seconds
_FIRST_BYTES: Final = 16
_LONGEST_WATCH_INTERVAL: Final = timedelta(seconds=5)


def make_server(application: ApiApplication, config: Config) -> HTTPServer:
    """Return a server that does not listen yet.

    It closes a connection when a body or the headers (of the first request or, kept alive, of the next one) take too
    long, or an answer is not taken. Raises OSError (ssl.SSLError included) for a certificate or key that cannot be
    used.
    """
    # Tornado's log lines about malformed requests quote their headers, which may hold a token.
    logging.getLogger("tornado.general").setLevel(logging.WARNING)
    return LimitedServer(
        application,
        connections=application.connections,
        hops=application.hops,
        takes_headers=config.http.proxy_protocol,
        watch_interval=min(_LONGEST_WATCH_INTERVAL, config.http.write_timeout / 4, config.http.header_timeout / 4),
        xheaders=False,
        body_timeout=config.http.body_timeout.total_seconds(),
        max_header_size=MAX_HEADER_BYTES,
        max_body_size=_TORNADO_MAX_BODY,
        max_buffer_size=_MAX_BUFFER_BYTES,
        ssl_options=_tls(config),
    )


class LimitedServer(HTTPServer):
    """Tornado's server, with our limits on connections."""

    def initialize(  # type: ignore[override]  # Tornado makes instances by this method, whose signature is free
        self,
        application: ApiApplication,
        *,
        connections: Connections,
        hops: HopWatch,
        takes_headers: bool,
        watch_interval: timedelta,
        **options: Any,
    ) -> None:
        super().initialize(application, **options)
        self.conn_params.header_timeout = None  # `cut_slow` does it: Tornado sets an alarm for each request
        self._limits = connections
        self._hops = hops
        self._takes_headers = takes_headers
        self._relays: set[asyncio.Task[None]] = set()
        self._watch_interval = watch_interval.total_seconds()
        self._watch: asyncio.TimerHandle | None = None

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        for listening in sockets:
            if listening.family != socket.AF_UNIX:  # inherited by the connections
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
            self._sockets[listening.fileno()] = listening
            self._handlers[listening.fileno()] = Acceptor(listening, self._on_accepted).stop

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        self._limits.add(stream, _host(address))
        stream.set_nodelay(True)
        stream.set_nodelay = _keep_nodelay  # type: ignore[method-assign]
        if not self._takes_headers and (is_near(_host(address)) or self._limits.is_proxy(_host(address))):
            self._look_for_header(stream, _host(address))
        self._watch_slow()
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        super().on_close(server_conn)
        assert isinstance(server_conn, HTTP1ServerConnection)
        if server_conn.stream.closed():  # not that of a WebSocket, which goes on
            self._limits.remove(server_conn.stream)

    def _on_accepted(self, connection: socket.socket, address: tuple[Any, ...]) -> None:
        peer = _host(address)
        if not self._limits.make_room(peer):
            connection.close()
        elif self._takes_headers and self._limits.is_proxy(peer):
            stream = IOStream(connection)
            self._limits.add(stream, peer)
            self._watch_slow()
            relay = asyncio.create_task(self._relay(connection, stream, address))
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)
        else:
            self._serve(connection, address)

    def _serve(self, connection: socket.socket, address: tuple[Any, ...]) -> None:
        try:
            if self.ssl_options is not None:
                connection.getpeername()  # fails if the client has left, as a balancer's check does, where TLS would
            self._handle_connection(connection, address)
        except OSError:
            connection.close()

    async def _relay(self, accepted: socket.socket, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a connection of a proxy once its PROXY header is there, within the time for the headers of a request.

        It counts as the proxy's until then, and as that of the client from then on.
        """
        try:
            client = find_client(await read_header(stream))
            connection = accepted.dup()  # the stream has read nothing else, and TLS has to begin with a socket
        except StreamClosedError:
            return
        except ValueError:
            self._hops.note_header(HintKind.HEADER_MISSING, _host(address))
            return
        except OSError as error:  # closed meanwhile, or no descriptor is left
            log.debug("a connection of a proxy is closed: %s", error.strerror)
            return
        finally:
            self._limits.remove(stream)
            stream.close()
        if client is not None:
            address = Relayed(client)
        if self._limits.make_room(_host(address)):
            self._serve(connection, address)
        else:
            connection.close()

    def _look_for_header(self, stream: IOStream, peer: str) -> None:
        """Notice a PROXY header that nobody expects, at the first bytes that are read; HTTP refuses it."""
        read = stream.read_from_fd

        def read_first(buffer: bytearray | memoryview) -> int | None:
            count = read(buffer)
            if count:
                del stream.read_from_fd
                if begins_header(bytes(buffer[: min(count, _FIRST_BYTES)])):
                    self._hops.note_header(HintKind.HEADER_OFF, peer)
            return count

        stream.read_from_fd = read_first  # type: ignore[method-assign, assignment]

    def _watch_slow(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._watch_interval, self._cut_slow)

    def _cut_slow(self) -> None:
        self._limits.cut_slow()
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(self._watch_interval, self._cut_slow) if len(self._limits) else None


class Acceptor:
    """Accepts the connections of a listening socket; pauses while the process or the system is out of descriptors.

    Otherwise the loop would spin, because the socket stays readable.
    """

    def __init__(self, listening: socket.socket, on_accepted: Callable[[socket.socket, tuple[Any, ...]], None]) -> None:
        self._listening = listening
        self._on_accepted = on_accepted
        self._loop = asyncio.get_running_loop()
        self._resumption: asyncio.TimerHandle | None = None
        self._is_failing = False
        listening.setblocking(False)
        self._resume()

    def stop(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._resumption is not None:
            self._resumption.cancel()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _number in range(_ACCEPTED_AT_ONCE):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._is_failing = False
            self._on_accepted(connection, address)

    def _pause(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            log.error("no connection can be accepted (%s); trying again every second", error.strerror)
        self._loop.remove_reader(self._listening)
        self._resumption = self._loop.call_later(_ACCEPT_PAUSE, self._resume)


def _keep_nodelay(value: bool) -> None:
    """Leave the option on: Tornado would turn it on and off at each reply, with two system calls."""


def _host(address: tuple[Any, ...]) -> str:
    """Return the peer's IP address; that of no machine for a UNIX socket, as Tornado has it."""
    return str(address[0]) if address else "0.0.0.0"  # noqa: S104 - nothing listens there


def _tls(config: Config) -> ssl.SSLContext | None:
    """Return the TLS context, or None if TLS is left to a proxy."""
    if config.server.tls_cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.server.tls_cert_file, config.server.tls_key_file)
    return context
