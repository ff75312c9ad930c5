"""Open connections: limits on their number and on buffered bodies, and an end for those whose client does not read.

A connection counts towards the limit of its client; one from a trusted proxy, towards that of the client whose request
it carries. Where a limit is reached, a connection that waits for its client makes room: the one that has waited longest
for a request or the rest of one, or the oldest whose answer is not read.
"""

from __future__ import annotations

import fcntl
import logging
import resource
import struct
import termios
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tornado.iostream import IOStream

from regsvc.config.live import LiveConfig
from regsvc.core.addresses import NETWORK_FACTOR, is_in_networks, limit_key, network_key, trusted_networks
from regsvc.http.metrics import HttpMetrics

log = logging.getLogger(__name__)

_ALL: Final = ""  # the group of all connections; other groups have the key of a client or its network
_SHARE_OF_FILES: Final = 0.8  # the other files are those of databases, mails and logs
_LEAST_TAKEN: Final = 8 * 1024  # bytes that a client has to take of an answer in `http.write_timeout`
_TIME_TO_ASK: Final = 1.0
"""Seconds in which a connection without a request does not make room if there is one whose answer is not read."""
_WARNING_INTERVAL: Final = 60.0  # seconds


@dataclass(eq=False, slots=True)
class Connection:
    """An open connection, and the keys of the groups that count it; `request_keys` during a proxy's request."""

    stream: IOStream
    is_from_proxy: bool
    keys: tuple[str, ...]
    request_keys: tuple[str, ...] = ()
    awaits_headers: bool = True
    """Whether it waits for the headers of a request, since when its group knows."""
    buffered_bytes: int = 0
    taken_bytes: int = 0
    taken_at: float | None = None
    """Time at which the client had taken `taken_bytes`; None if no answer is being sent."""


@dataclass(eq=False, slots=True)
class Group:
    """Connections with a common limit, the oldest first; `waiting`: since when each waits for a whole request."""

    members: dict[Connection, None] = field(default_factory=dict)
    waiting: dict[Connection, float] = field(default_factory=dict)


class Connections:
    """The open connections of this process. Use on the event loop only."""

    def __init__(self, live: LiveConfig, metrics: HttpMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = live
        self._metrics = metrics
        self._clock = clock
        self._groups: dict[str, Group] = {}
        self._open: dict[IOStream, Connection] = {}
        self._buffered_bytes = 0
        self._warned_at: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def make_room(self, peer: str) -> bool:
        """Return whether a peer may open a connection; a connection that waits for its client may be closed for it."""
        limits = {} if self.is_proxy(peer) else self._client_limits(peer)
        for key, limit in limits.items():
            if self._is_full(key, limit) and not self._close_waiting(key):
                self._refuse("client", f"{key} has {limit} (is it a proxy that http.trusted_proxies does not name?)")
                return False
        most = self._live.current.http.max_connections
        soft_limit, _hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft_limit != resource.RLIM_INFINITY:
            most = min(most, int(soft_limit * _SHARE_OF_FILES))
        if self._is_full(_ALL, most) and not self._close_waiting(_ALL):
            self._refuse("all", f"there are {most} (http.max_connections)")
            return False
        return True

    def add(self, stream: IOStream, peer: str) -> None:
        """Count a new connection, which waits for its client's first request."""
        is_from_proxy = self.is_proxy(peer)
        clients = () if is_from_proxy else self._client_limits(peer)
        connection = self._open[stream] = Connection(stream, is_from_proxy, (_ALL, *clients))
        for key in connection.keys:
            group = self._groups.setdefault(key, Group())
            group.members[connection] = None
            group.waiting[connection] = self._clock()
        self._metrics.connections.set(len(self._open))

    def remove(self, stream: IOStream) -> None:
        """Stop counting a connection; it may have been removed before."""
        connection = self._open.pop(stream, None)
        if connection is not None:
            self._buffered_bytes -= connection.buffered_bytes
            self._leave(connection, {*connection.keys, *connection.request_keys})
            self._metrics.connections.set(len(self._open))

    def await_request(self, stream: IOStream) -> None:
        """Note that a connection waits for its next request, because the last one is answered."""
        connection = self._open.get(stream)
        if connection is None:
            return
        self.release_body(stream)
        self._leave(connection, connection.request_keys)
        connection.request_keys = ()
        connection.awaits_headers = True
        self._begin_wait(connection)

    def begin_request(self, stream: IOStream, client: str) -> bool:
        """Note the headers of a request; return False if a proxy passes on too many of this client at a time."""
        connection = self._open.get(stream)
        if connection is None:
            return True
        connection.awaits_headers = False
        self._begin_wait(connection)
        if not connection.is_from_proxy or self.is_proxy(client):
            return True
        limits = self._client_limits(client)
        is_allowed = not any(self._is_full(key, limit) for key, limit in limits.items())
        connection.request_keys = tuple(limits)
        for key in limits:
            self._groups.setdefault(key, Group()).members[connection] = None
        return is_allowed

    def begin_answer(self, stream: IOStream) -> None:
        """Note that a request has arrived whole: the connection waits for its client no more."""
        connection = self._open.get(stream)
        if connection is not None:
            for key in connection.keys:
                self._groups[key].waiting.pop(connection, None)

    def buffer_body(self, stream: IOStream, size: int) -> bool:
        """Count bytes of a body that is kept until its request is answered; return False if all are too many.

        Incomplete requests make room: those that have waited longest for the rest of their body are closed.
        """
        connection = self._open.get(stream)
        if connection is None:
            return True
        connection.buffered_bytes += size
        self._buffered_bytes += size
        most = self._live.current.http.max_buffered_bodies
        while self._buffered_bytes > most:
            others = (other for other in self._groups[_ALL].waiting if other.buffered_bytes and other is not connection)
            longest = next(others, None)
            if longest is None or connection.buffered_bytes > most:
                return False
            self._close(longest, "idle")
        return True

    def release_body(self, stream: IOStream) -> None:
        """Stop counting the body of a connection's request."""
        connection = self._open.get(stream)
        if connection is not None:
            self._buffered_bytes -= connection.buffered_bytes
            connection.buffered_bytes = 0

    def cut_slow(self) -> None:
        """Close the connections whose client is too slow.

        They have sent no whole headers in `http.header_timeout`, or taken less than `_LEAST_TAKEN` of an answer in
        `http.write_timeout`.
        """
        now, http = self._clock(), self._live.current.http
        timeout = http.write_timeout.total_seconds()
        asked_after, waiting = now - http.header_timeout.total_seconds(), self._groups.get(_ALL, Group()).waiting
        for connection in [it for it, since in waiting.items() if it.awaits_headers and since <= asked_after]:
            self.remove(connection.stream)
            connection.stream.close()
        for stream, connection in list(self._open.items()):
            if stream.closed():  # that of a WebSocket, which the server does not follow
                self.remove(stream)
            elif not stream.writing():
                connection.taken_at = None
            elif connection.taken_at is None or _taken_bytes(stream) >= connection.taken_bytes + _LEAST_TAKEN:
                connection.taken_at, connection.taken_bytes = now, _taken_bytes(stream)
            elif now - connection.taken_at >= timeout:
                self._close(connection, "unread")

    def is_proxy(self, address: str) -> bool:
        """Return whether an address is one of `http.trusted_proxies`."""
        config = self._live.current
        return is_in_networks(address, trusted_networks(config.http.trusted_proxies, config.server.host))

    def _begin_wait(self, connection: Connection) -> None:
        for key in connection.keys:
            waiting = self._groups[key].waiting
            waiting.pop(connection, None)  # so that it is the last one
            waiting[connection] = self._clock()

    def _client_limits(self, address: str) -> Mapping[str, int]:
        """Return the limits that hold for a client, by the keys of their groups."""
        limit = self._live.current.http.max_connections_per_client
        return {network_key(address): NETWORK_FACTOR * limit} | {limit_key(address): limit}  # IPv4: one key

    def _is_full(self, key: str, limit: int) -> bool:
        group = self._groups.get(key)
        return group is not None and len(group.members) >= limit

    def _close_waiting(self, key: str) -> bool:
        """Close the connection of a group that makes room for another; return False if none waits for its client."""
        group = self._groups[key]
        first = next(iter(group.waiting), None)
        if first is None or self._clock() - group.waiting[first] < _TIME_TO_ASK:
            unread = next((connection for connection in group.members if connection.stream.writing()), None)
            if unread is not None:
                self._close(unread, "unread")
                return True
        if first is not None:
            self._close(first, "idle")
        return first is not None

    def _close(self, connection: Connection, reason: Literal["idle", "unread"]) -> None:
        self._metrics.cut_connections.labels(reason).inc()
        self.remove(connection.stream)
        connection.stream.close()

    def _leave(self, connection: Connection, keys: Iterable[str]) -> None:
        for key in keys:
            group = self._groups[key]
            group.members.pop(connection, None)
            group.waiting.pop(connection, None)
            if not group.members:
                del self._groups[key]

    def _refuse(self, limit: Literal["all", "client"], reason: str) -> None:
        self._metrics.refused_connections.labels(limit).inc()
        now = self._clock()
        if self._warned_at is None or now - self._warned_at >= _WARNING_INTERVAL:
            self._warned_at = now
            log.warning("refusing connections: %s; this is logged once a minute", reason)


def _taken_bytes(stream: IOStream) -> int:
    """Return how many bytes the client's machine has acknowledged, so that the kernel's buffer hides no slow client."""
    unacknowledged = struct.unpack("i", fcntl.ioctl(stream.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    written: int = stream._total_write_done_index  # Tornado has no public counter
    return written - int(unacknowledged)
