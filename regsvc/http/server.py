"""The HTTP server: accepts connections within limits, checks each request early, and hands it to its handler.

It survives a lack of file descriptors. At its end the PROXY protocol, versions 1 and 2: the header with which a TCP
proxy or a tunnel names its client, as in https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt; the values (TLV)
behind the addresses are skipped.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, cast

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection, is_transfer_encoding_chunked
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import RequestHandler, stream_request_body

from regsvc.config.sections import Config
from regsvc.core.addresses import client_address, network_key, trusted_networks
from regsvc.core.errors import BodyTooLarge, Category, HeadersTooLarge, MalformedRequest, Overloaded, Refusal
from regsvc.http.call import BaseHandler, Call, Rule, ServingApplication, printable_path
from regsvc.http.connections import Connections
from regsvc.http.hops import HintKind, HopWatch, Relayed, is_near, is_relayed
from regsvc.http.route import ADMIN, SMALL_BODY, Access, Features, Route

log = logging.getLogger(__name__)

MAX_READ_HEADER_BYTES: Final = 32 * 1024
"""Above it, Tornado disconnects without an answer; the limit that is answered is `MAX_HEADER_BYTES`."""

_MAX_BUFFER_BYTES: Final = 1024 * 1024
_TORNADO_MAX_BODY: Final = 10**30  # it would disconnect without an answer; the limit that is answered is a route's
_MAX_UNSENT_BYTES: Final = 128 * 1024  # of an answer in the kernel, which counts them as memory of the service
_ACCEPTED_AT_ONCE: Final = 128
_ACCEPT_PAUSE: Final = 1.0  # seconds
_FIRST_BYTES: Final = 16
_LONGEST_WATCH_INTERVAL: Final = timedelta(seconds=5)


MAX_DISCARDED_BYTES = 1024 * 1024


@stream_request_body
class EarlyRefusalHandler(Call):
    """Handler that refuses at once, and discards up to `MAX_DISCARDED_BYTES` of the body before it disconnects.

    Closing a connection while the client is still sending resets it, and the client may never see the answer.
    """

    _discarded_bytes = 0

    def initialize(self, routes: Mapping[str, Route], refusal: Refusal) -> None:  # type: ignore[override]
        super().initialize(routes)
        self._refusal = refusal

    async def prepare(self) -> None:
        self.write_refusal(self._refusal)
        if self._is_finished_at_once():
            self.finish()
            return
        await self.flush()

    def _is_finished_at_once(self) -> bool:
        headers = self.request.headers
        if isinstance(self._refusal, MalformedRequest):  # where its body ends is not known
            return True
        if self._refusal.category is Category.UNAVAILABLE:  # a body that is still to come would keep the connection
            return "Content-Length" in headers or "Transfer-Encoding" in headers
        return self.request.method == "HEAD" or "Expect" in headers  # no body will come, or it has not been sent yet

    def data_received(self, chunk: bytes) -> None:
        self._discarded_bytes += len(chunk)
        if self._discarded_bytes > MAX_DISCARDED_BYTES:
            self.finish()

    async def get(self) -> None:
        """Finish once the whole body was discarded, so that the connection can be reused."""

    head = post = put = patch = delete = options = get  # type: ignore[assignment]


access_log = logging.getLogger("regsvc.access")

MAX_LINES = 600
"""Lines of the access log a minute about one client (IPv6: /48): whatever a client does, the log is bounded."""
_LOWEST_FAILURE = 400

MAX_HEADER_BYTES = 16 * 1024
"""Of a request's line and headers together, as they were sent but for further spaces."""


class ApiApplication(ServingApplication):
    """Tornado application with our features and our own handling of incoming requests."""

    def __init__(
        self, features: Features, tables: Mapping[bool, tuple[Route, ...]], pages: Sequence[Rule] = ()
    ) -> None:
        """`tables` are the route tables without and with `http.legacy_status`.

        `pages` are further Tornado rules, matched after the routes.

        Raises ValueError for a route table that contradicts itself, and `MissingFeature`.
        """
        super().__init__(features, tables, pages)
        self._by_path = {is_legacy: _by_path(table, features) for is_legacy, table in tables.items()}
        # proxies whose `backend_url` ends with a slash
        self._by_path[True] |= {
            f"/{route.path}": self._by_path[True][route.path] for route in tables[True] if route.keeps_429
        }
        self._paths = _literal_paths(pages).union(*self._by_path.values())
        self._minute, self._logged = 0, dict[str, int]()
        self.connections = Connections(self.live, self.metrics)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        return IncomingRequest(self, server_conn, request_conn)

    def find_routes(self, path: str) -> dict[str, Route]:
        """Return the routes of an API path by method, with or without a slash at its end; empty for another path."""
        known = self._by_path[self.live.current.http.legacy_status]
        return known.get(path) or known.get(path.removesuffix("/"), {})

    def log_request(self, handler: RequestHandler) -> None:
        """Log one line per request, without the query: it may name users. Count it.

        Probes that succeed have theirs at "debug", and a client has no more than `MAX_LINES` a minute.
        """
        request, status, seconds = handler.request, handler.get_status(), handler.request.request_time()
        is_probe = isinstance(handler, Call) and handler.route is not None and handler.route.access is Access.PROBE
        level = logging.DEBUG if is_probe and status < _LOWEST_FAILURE else logging.INFO
        if access_log.isEnabledFor(level) and self._may_log(str(request.remote_ip)):
            request_id = handler.request_id if isinstance(handler, BaseHandler) else "-"
            facts = (request.remote_ip, request.method, printable_path(request), status, seconds * 1000, request_id)
            access_log.log(level, "%s %s %s %d %.1fms request=%s", *facts)
        path = request.path if request.path in self._paths else request.path.removesuffix("/")
        # unknown paths would make a metric each
        route = path if path in self._paths else "other"
        method = str(request.method) if request.method in handler.SUPPORTED_METHODS else "other"
        self.metrics.count_request(route, method, status, seconds)

    def _may_log(self, client: str) -> bool:
        """Count a client's request; return whether it gets a line. Say for the last minute how many got none."""
        minute, key = int(time.monotonic() // 60), network_key(client)
        if minute != self._minute:
            for name, count in self._logged.items():
                if count > MAX_LINES:
                    access_log.info("and %s more requests by %s within a minute", f"{count - MAX_LINES:,}", name)
            self._minute, self._logged = minute, {}
        self._logged[key] = self._logged.get(key, 0) + 1
        return self._logged[key] <= MAX_LINES


class IncomingRequest(HTTPMessageDelegate):
    """Delegate for one request: sets the client's address and enforces limits before any handler runs."""

    def __init__(self, application: ApiApplication, server_connection: object, connection: HTTPConnection) -> None:
        self._application = application
        self._server_connection = server_connection
        self._connection = connection
        self._stream = cast(HTTP1Connection, connection).stream
        self._delegate = HTTPMessageDelegate()  # does nothing
        self._received_bytes = 0
        self._is_refused = False
        application.connections.await_request(self._stream)

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        if self._stream.closed():
            # Tornado goes on with what it had read; an input error ends that
            raise HTTPInputError("the client has disconnected")
        self._start_line = cast(RequestStartLine, start_line)
        self._headers = headers
        try:
            length = declared_length(headers)
            self._request = self._make_request(self._start_line)
        except HTTPInputError:
            return self._refuse_malformed()
        application = self._application
        routes, http = application.find_routes(self._request.path), application.live.current.http
        route = routes.get(self._start_line.method)
        takes_large_body = route is not None and (route.has_large_body or route.access is ADMIN)
        self._max_body = http.max_body if takes_large_body else min(SMALL_BODY, http.max_body)
        if not application.connections.begin_request(self._stream, str(self._request.remote_ip)):
            return self._refuse(Overloaded())
        lines = sum(len(name) + len(value) + 4 for name, value in headers.get_all())
        line = self._start_line
        if lines + len(line.method) + len(line.path) + len(line.version) + 6 > MAX_HEADER_BYTES:
            return self._refuse(HeadersTooLarge(max_bytes=MAX_HEADER_BYTES))
        if length > self._max_body:
            return self._refuse(BodyTooLarge(max_bytes=self._max_body))
        if routes:  # past Tornado's search, which tries the patterns of all pages one by one
            self._delegate = application.get_handler_delegate(self._request, Call, {"routes": routes})
        else:
            self._delegate = application.find_handler(self._request)
        return self._delegate.headers_received(start_line, headers)

    async def data_received(self, chunk: bytes) -> None:
        self._received_bytes += len(chunk)
        if not self._is_refused:
            if self._received_bytes > self._max_body:  # before it is counted: it makes no other request give way
                await self._refuse(BodyTooLarge(max_bytes=self._max_body))
            elif not self._application.connections.buffer_body(self._stream, len(chunk)):
                await self._refuse(Overloaded())
        received = self._delegate.data_received(chunk)
        if received is not None:
            await received

    def finish(self) -> None:
        self._application.connections.begin_answer(self._stream)
        self._delegate.finish()

    def on_connection_close(self) -> None:
        self._delegate.on_connection_close()

    def _make_request(self, start_line: RequestStartLine) -> HTTPServerRequest:
        request = HTTPServerRequest(
            connection=self._connection,
            server_connection=self._server_connection,
            start_line=start_line,
            headers=self._headers,
        )
        forwarded_for = self._headers.get_list("X-Forwarded-For")
        config = self._application.live.current
        trusted = trusted_networks(config.http.trusted_proxies, config.server.host)
        peer = str(request.remote_ip)
        request.remote_ip = client_address(peer, forwarded_for, trusted)
        if not is_relayed(self._connection):
            self._application.hops.observe(request.path, self._headers, peer, request.remote_ip, trusted)
        return request

    def _refuse_malformed(self) -> Awaitable[None]:
        """Refuse a malformed request; the parts that may be at fault are dropped so that it can be answered."""
        self._headers["Host"] = "invalid"
        self._request = self._make_request(self._start_line._replace(path=self._start_line.path.partition("?")[0]))
        return self._pass_on(MalformedRequest())

    def _refuse(self, refusal: Refusal) -> Awaitable[None]:
        """Pass the rest of the request to a handler that answers without keeping the body."""
        self._application.connections.release_body(self._stream)
        return self._pass_on(refusal)

    def _pass_on(self, refusal: Refusal) -> Awaitable[None]:
        self._is_refused = True
        arguments = {"routes": {}, "refusal": refusal}
        self._delegate = self._application.get_handler_delegate(self._request, EarlyRefusalHandler, arguments)
        return cast(Awaitable[None], self._delegate.headers_received(self._start_line, self._headers))


def declared_length(headers: HTTPHeaders) -> int:
    """Return the announced length of the body in bytes; 0 for none and for a chunked body, counted as it arrives.

    Raises HTTPInputError if two servers might disagree about the length.
    """
    if is_transfer_encoding_chunked(headers):
        return 0
    if "Content-Length" not in headers:
        return 0
    length = headers["Content-Length"]
    if not re.fullmatch("[0-9]{1,30}", length):
        raise HTTPInputError("Content-Length is not one number")
    return int(length)


def _by_path(routes: Iterable[Route], features: Features) -> dict[str, dict[str, Route]]:
    """Return the routes of each path by method, with their features; raises ValueError for two of one method."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        methods = by_path.setdefault(route.path, {})
        if route.method in methods:
            raise ValueError(f"two routes for {route.method} {route.path}")
        methods[route.method] = route.with_features(features)
    return by_path


def _literal_paths(rules: Sequence[Rule]) -> frozenset[str]:
    """Return the paths of the rules that match exactly one path each, as opposed to a pattern."""
    patterns = {re.sub(r"\\(.)", r"\1", rule[0]): rule[0] for rule in rules if isinstance(rule[0], str)}
    return frozenset(path for path, pattern in patterns.items() if re.escape(path) == pattern)


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
        max_header_size=MAX_READ_HEADER_BYTES,
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
        peer = _host(address)
        self._limits.add(stream, peer)
        stream.set_nodelay(True)
        stream.set_nodelay = _keep_nodelay  # type: ignore[method-assign]
        if not self._takes_headers and (is_near(peer) or self._limits.is_proxy(peer)):
            self._look_for_header(stream, peer)
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


# --- The PROXY protocol ---

_LINE_START: Final = b"PROXY "
_LONGEST_LINE: Final = 107
_SHORTEST_LINE: Final = 15  # that of an unknown client
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED_PART: Final = 16  # bytes, before the addresses
_PORT: Final = "(?:0|[1-9][0-9]{0,4})"
_LINE: Final = re.compile(f"PROXY TCP(?P<version>[46]) (?P<client>[^ %]+) (?P<server>[^ %]+) {_PORT} {_PORT}\r\n")
_UNKNOWN: Final = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?\r\n")
_LOCAL, _PROXIED = 0x20, 0x21
"""Version 2 and the command: the proxy itself has connected, or a client of it."""
_ADDRESSES: Final = {0x11: (IPv4Address, 4, 12), 0x21: (IPv6Address, 16, 36)}
"""By family and transport, TCP: the type of address, its bytes, and those of all addresses and ports."""
_OTHERS: Final = frozenset((0x00, 0x01, 0x02, 0x10, 0x12, 0x20, 0x22, 0x30, 0x31, 0x32))
"""Families and transports that are valid, and tell nothing about a client of HTTP."""


def begins_header(data: bytes) -> bool:
    """Return whether these first bytes of a connection are those of a header; no request of HTTP begins like this."""
    return data.startswith((_SIGNATURE, b"PROXY TCP4 ", b"PROXY TCP6 ", b"PROXY UNKNOWN"))


def count_missing(header: bytes | bytearray) -> int:
    """Return how many bytes of a header are missing, at least; 0: it is whole. Raises ValueError: it is none."""
    size = len(header)
    if _LINE_START.startswith(header[: len(_LINE_START)]):
        if header.endswith(b"\r\n"):
            return 0
        if size >= _LONGEST_LINE:
            raise ValueError("a line that is too long")
        return max(_SHORTEST_LINE - size, 1 if header.endswith(b"\r") or size == _LONGEST_LINE - 1 else 2)
    if not _SIGNATURE.startswith(header[: len(_SIGNATURE)]):
        raise ValueError("something else")
    if size < _FIXED_PART:
        return _FIXED_PART - size
    return _FIXED_PART + int.from_bytes(header[14:16], "big") - size


def find_client(header: bytes) -> str | None:
    """Return the address of the client that a whole header names; None: it names none, and the connection's counts.

    Raises ValueError for a header that breaks the rules.
    """
    if not header.startswith(_LINE_START):
        return _find_in_block(header)
    if _UNKNOWN.fullmatch(header):
        return None
    line = _LINE.fullmatch(header.decode("latin-1"))
    if line is None or any(int(port) > 0xFFFF for port in header.split()[4:]):
        raise ValueError("not a line of version 1")
    kind = IPv4Address if line["version"] == "4" else IPv6Address
    kind(line["server"])
    return str(kind(line["client"]))


def _find_in_block(header: bytes) -> str | None:
    command, family = header[12], header[13]
    if command == _LOCAL:
        return None
    if command != _PROXIED or not (family in _ADDRESSES or family in _OTHERS):
        raise ValueError("a version, command or family that does not exist")
    if family in _OTHERS:
        return None
    kind, size, size_of_all = _ADDRESSES[family]
    if len(header) - _FIXED_PART < size_of_all:
        raise ValueError("a block that is shorter than its addresses")
    return str(kind(header[_FIXED_PART : _FIXED_PART + size]))


async def read_header(stream: IOStream) -> bytes:
    """Read the header that a connection begins with, and not one byte more: TLS may follow.

    Raises ValueError as soon as it is none, and StreamClosedError.
    """
    header = bytearray()
    while missing := count_missing(header):
        stream.read_chunk_size = missing
        header += await stream.read_bytes(missing, partial=True)
    return bytes(header)
