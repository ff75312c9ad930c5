"""The Tornado application: from an incoming request to a handler."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import cast

from tornado.http1connection import HTTP1Connection, is_transfer_encoding_chunked
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.web import RequestHandler, stream_request_body

from regsvc.core.addresses import client_address, network_key, trusted_networks
from regsvc.core.errors import BodyTooLarge, Category, HeadersTooLarge, MalformedRequest, Overloaded, Refusal
from regsvc.http.call import BaseHandler, Call, Rule, ServingApplication, printable_path
from regsvc.http.connections import Connections
from regsvc.http.hops import is_relayed
from regsvc.http.route import ADMIN, SMALL_BODY, Access, Features, Route

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
