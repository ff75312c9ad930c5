"""Limits on connections: of one client, of all, of buffered bodies; and clients that do not read their answers."""

import json
import logging
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from tornado.iostream import IOStream

from regsvc.config.host_sections import HttpSection, ServerSection
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.http import connections as module
from regsvc.http.connections import Connections
from regsvc.http.server import MAX_HEADER_BYTES, MAX_READ_HEADER_BYTES
from regsvc.runtime.metrics import Metrics
from tests.support.live_api import LiveApi, make_features
from tests.support.probe_routes import LOGIN, ROUTES, assert_refused, begun, serve
from tests.support.watching import ask_until

SLOW = b"GET /api/slow HTTP/1.1\r\nHost: x\r\n\r\n"
OPEN = b"GET /api/open HTTP/1.1\r\nHost: x\r\n\r\n"
MOST_OF_A_BODY = (
    b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 65536\r\n\r\n"
    + json.dumps(LOGIN).encode().ljust(65535)
)


def forwarded(request: bytes, client: str) -> bytes:
    return request.replace(b"\r\n\r\n", f"\r\nX-Forwarded-For: {client}\r\n\r\n".encode())


def begin(connection: socket.socket, request: bytes) -> None:
    """Send a request to `/api/slow`, and wait until it is being answered."""
    begun.clear()
    connection.sendall(request)
    assert begun.wait(10)


def is_answered(api: LiveApi) -> bool:
    with api.connect() as connection:
        connection.sendall(OPEN)
        return not is_closed(connection)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def answer_to_the_rest(connection: socket.socket) -> bytes:
    """Send the last byte of a body; return the beginning of the answer, empty if the connection is closed."""
    try:
        connection.sendall(b" ")
        return connection.recv(12)
    except (BrokenPipeError, ConnectionResetError):
        return b""


@pytest.fixture
def strict_api() -> Iterator[LiveApi]:
    """An API that trusts no proxy, with four connections per client."""
    with serve(trusted_proxies=(), max_connections_per_client=4) as api:
        yield api


@pytest.fixture
def proxied_api() -> Iterator[LiveApi]:
    """An API behind a proxy on loopback, with four requests per client."""
    with serve(max_connections_per_client=4) as api:
        yield api


# --- Real sockets ---


def test_an_idle_connection_makes_room_for_a_new_one_of_its_client(strict_api: LiveApi) -> None:
    with ExitStack() as opened:
        first, *others = [opened.enter_context(strict_api.connect()) for _number in range(5)]
        assert is_closed(first)
        for connection in others:
            connection.sendall(OPEN)
            assert connection.recv(12) == b"HTTP/1.1 200"


def test_a_half_sent_request_makes_room_for_a_new_connection(strict_api: LiveApi) -> None:
    with ExitStack() as opened:
        halves = [opened.enter_context(strict_api.connect()) for _number in range(4)]
        for connection in halves:
            connection.sendall(MOST_OF_A_BODY)
        asked = opened.enter_context(strict_api.connect())
        asked.sendall(OPEN)
        assert asked.recv(12) == b"HTTP/1.1 200"
        # One has made room; which of them waited longest depends on the order in which the server read them.
        assert sorted(answer_to_the_rest(connection) for connection in halves) == [b"", *3 * [b"HTTP/1.1 201"]]


def test_a_client_with_too_many_busy_connections_is_refused(
    strict_api: LiveApi, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as opened:
        for _number in range(4):
            begin(opened.enter_context(strict_api.connect()), SLOW)
        neighbour = opened.enter_context(socket.socket())
        neighbour.bind(("127.0.0.9", 0))
        neighbour.connect(("127.0.0.1", strict_api.port))
        for _number in range(8):
            assert is_closed(opened.enter_context(strict_api.connect()))
        neighbour.sendall(OPEN)
        assert neighbour.recv(12) == b"HTTP/1.1 200"
    ask_until(lambda: is_answered(strict_api), bool)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [
        "refusing connections: 127.0.0.1 has 4 (is it a proxy that http.trusted_proxies does not name?); "
        "this is logged once a minute"
    ]


def test_the_requests_of_one_client_behind_a_proxy_are_limited(proxied_api: LiveApi) -> None:
    with ExitStack() as opened:
        for _number in range(4):
            begin(opened.enter_context(proxied_api.connect()), forwarded(SLOW, "203.0.113.7"))
        proxy = opened.enter_context(proxied_api.connect())

        def ask(client: str) -> bytes:
            proxy.sendall(forwarded(OPEN, client))
            return proxy.recv(65536).split()[1]

        assert ask("203.0.113.7") == b"503"
        assert ask("203.0.113.8") == b"200"
    reply = ask_until(
        lambda: proxied_api.request("GET", "/api/open", headers={"X-Forwarded-For": "203.0.113.7"}),
        lambda reply: reply.status == 200,
    )
    assert reply.json["address"] == "203.0.113.7"


def test_a_refused_request_behind_a_proxy_keeps_no_connection(proxied_api: LiveApi) -> None:
    half = forwarded(MOST_OF_A_BODY, "203.0.113.7")
    with ExitStack() as opened:
        halves = [opened.enter_context(proxied_api.connect()) for _number in range(5)]
        for connection in halves:
            connection.sendall(half)
        refused = ask_until(lambda: first_that_answers(halves), bool)
        assert refused is not None
        assert refused.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert is_closed(refused)
        assert first_that_answers([connection for connection in halves if connection is not refused]) is None


def test_half_sent_bodies_make_room_for_others() -> None:
    features = make_features(Config(http=HttpSection(max_buffered_bodies=1024 * 1024)))
    with LiveApi(features, ROUTES) as api, ExitStack() as opened:
        halves = []
        for _number in range(17):  # of which 16 fit
            halves.append(opened.enter_context(api.connect()))
            halves[-1].sendall(MOST_OF_A_BODY)
        name, labels = "companion_http_connections_cut_total", {"reason": "idle"}
        ask_until(lambda: features.of_class(Metrics)._registry.get_sample_value(name, labels), lambda count: count == 1)
        assert sorted(answer_to_the_rest(connection) for connection in halves) == [b"", *[b"HTTP/1.1 201"] * 16]


def test_a_body_that_nothing_makes_room_for_is_refused() -> None:
    body = b"x" * (1024 * 1024 + 1)
    with serve(max_buffered_bodies=1024 * 1024, max_body=2 * 1024 * 1024) as api, api.connect() as connection:
        connection.sendall(MOST_OF_A_BODY.partition(b"\r\n\r\n")[0].replace(b"65536", b"2000000") + b"\r\n\r\n" + body)
        head, _, refusal = connection.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: " in head
    assert json.loads(refusal)["code"] == "overloaded"


def test_what_a_client_that_has_left_had_asked_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    """Requests that were read together with an earlier one stay in memory when the client disconnects."""
    features = make_features(Config())
    with caplog.at_level(logging.INFO), LiveApi(features) as api:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", api.port))
            client.sendall(b"GET /api/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
            assert client.recv(1) == b"H"
        ask_until(
            lambda: features.of_class(Metrics)._registry.get_sample_value("companion_http_connections"),
            lambda count: count == 0,
        )
    answered = [record for record in caplog.records if "/api/openapi.json" in record.getMessage()]
    assert 0 < len(answered) < 50


def first_that_answers(connections: list[socket.socket]) -> socket.socket | None:
    for connection in connections:
        connection.setblocking(False)
        try:
            if connection.recv(1, socket.MSG_PEEK):
                return connection
        except BlockingIOError:
            continue
        finally:
            connection.settimeout(10)
    return None


@pytest.mark.parametrize("size", [MAX_HEADER_BYTES, MAX_READ_HEADER_BYTES - 1024])
def test_headers_that_are_too_large_are_431(size: int) -> None:
    with serve() as api:
        reply = api.request("GET", "/api/open", headers={"Cookie": "x" * size})
        assert_refused(reply, 431, "headers_too_large")
        assert reply.json["maxBytes"] == MAX_HEADER_BYTES
        assert api.request("GET", "/api/open", headers={"Cookie": "x" * (MAX_HEADER_BYTES - 512)}).status == 200


def test_a_client_with_a_small_window_gets_its_whole_answer() -> None:
    with LiveApi(make_features(Config())) as api, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", api.port))
        client.sendall(b"GET /api/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert len(body) == int(head.partition(b"Content-Length: ")[2].split()[0])


def test_an_option_of_the_socket_is_set_once_for_all_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[bool] = []
    monkeypatch.setattr(IOStream, "set_nodelay", lambda stream, value: options.append(value))
    with LiveApi(make_features(Config()), ROUTES) as api:
        asked = b"GET /api/open HTTP/1.1\r\nHost: x\r\n"
        answer = api.raw(2 * (asked + b"\r\n") + asked + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 3
    assert options == [True]


def test_strict_transport_security_is_for_https_alone() -> None:
    for address, is_sent in (("https://play.example.org", True), ("http://play.example.org", False), ("", False)):
        with LiveApi(make_features(Config(server=ServerSection(base_url=address))), ROUTES) as api:
            headers = api.request("GET", "/api/open").headers
            assert headers.get("Strict-Transport-Security") == ("max-age=31536000" if is_sent else None)


# --- The rules alone ---


@dataclass(eq=False)
class Stream:
    """A connection's stream, as far as the limits know it."""

    is_closed: bool = False
    is_writing: bool = False
    taken: int = 0

    def closed(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def writing(self) -> bool:
        return self.is_writing


@dataclass
class Rules:
    """Connections at a time that stands still."""

    http: HttpSection
    now: float = 0.0
    connections: Any = field(init=False)

    def __post_init__(self) -> None:
        self.connections = Connections(LiveConfig(Config(http=self.http)), Metrics().http, lambda: self.now)

    def open(self, peer: str, *, is_busy: bool = True) -> Stream | None:
        """Open a connection; None if it was refused."""
        if not self.connections.make_room(peer):
            return None
        stream = Stream()
        self.connections.add(stream, peer)
        if is_busy:
            self.connections.begin_request(stream, peer)
            self.connections.begin_answer(stream)
        return stream


def opened(rules: Rules, *peers: str) -> list[Stream]:
    """Open a connection that is busy for each, none of which is refused."""
    streams = [rules.open(peer) for peer in peers]
    return [stream for stream in streams if stream is not None]


def count_opened(rules: Rules, peers: Callable[[int], str], tries: int = 100) -> int:
    return sum(rules.open(peers(number)) is not None for number in range(tries))


def test_one_ipv6_network_has_four_times_the_connections_of_a_client() -> None:
    rules = Rules(HttpSection(trusted_proxies=(), max_connections_per_client=4))
    assert count_opened(rules, lambda number: f"2001:db8:1:7::{number:x}") == 4
    assert count_opened(rules, lambda number: f"2001:db8:1:{number + 100:x}::1") == 12
    assert count_opened(rules, lambda number: f"2001:db8:{number + 2:x}::1") == 100


def test_all_connections_together_are_limited_and_idle_ones_make_room_in_their_order() -> None:
    rules = Rules(HttpSection(trusted_proxies=(), max_connections=8))
    idle = [rules.open(f"198.51.100.{number}", is_busy=False) for number in range(8)]
    assert idle[0] is not None
    rules.connections.begin_request(idle[0], "198.51.100.0")
    rules.connections.begin_answer(idle[0])
    rules.connections.await_request(idle[0])
    assert rules.open("203.0.113.1") is not None
    assert [stream is not None and stream.is_closed for stream in idle] == [False, True, *[False] * 6]
    assert count_opened(rules, lambda number: f"203.0.113.{number + 2}") == 7
    assert len(rules.connections) == 8
    assert rules.open("203.0.113.1") is None


def test_of_the_bodies_those_that_wait_longest_for_their_rest_make_room() -> None:
    rules = Rules(HttpSection(trusted_proxies=(), max_buffered_bodies=1000))
    whole, empty, first, second, last = (rules.open(f"203.0.113.{number}", is_busy=number == 0) for number in range(5))
    for stream, size in ((whole, 400), (first, 300), (second, 300), (last, 200)):
        assert stream is not None
        assert rules.connections.buffer_body(stream, size)
    assert [stream is not None and stream.is_closed for stream in (whole, empty, first, second, last)] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert not rules.connections.buffer_body(last, 1000), "it would not fit alone, either"
    assert second is not None
    assert not second.is_closed


def test_few_open_files_lower_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules(HttpSection(trusted_proxies=()))
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (20, 20))
    assert count_opened(rules, lambda number: f"203.0.113.{number}") == 16


def test_what_is_closed_is_counted_no_more() -> None:
    rules = Rules(HttpSection(trusted_proxies=()))
    streams = [rules.open("203.0.113.1") for _number in range(64)]
    assert rules.open("203.0.113.1") is None
    for stream in streams:
        rules.connections.buffer_body(stream, 1000)
        rules.connections.remove(stream)
        rules.connections.remove(stream)
    assert len(rules.connections) == 0
    assert rules.connections._buffered_bytes == 0
    assert rules.connections._groups == {}


def test_a_socket_that_left_the_server_is_noticed_when_it_is_closed() -> None:
    rules = Rules(HttpSection(trusted_proxies=()))
    [stream] = opened(rules, "203.0.113.1")
    stream.close()
    rules.connections.cut_slow()
    assert len(rules.connections) == 0


def test_headers_have_their_time_and_then_neither_the_body_nor_the_answer_is_hurried() -> None:
    rules = Rules(HttpSection(trusted_proxies=()))
    silent, answered, sending, again = [rules.open("203.0.113.1", is_busy=False) for _number in range(4)]
    rules.now = 9.0
    for stream in (answered, sending, again):
        rules.connections.begin_request(stream, "203.0.113.1")
    for stream in (answered, again):
        rules.connections.begin_answer(stream)
    rules.connections.await_request(again)
    closed = []
    for moment in (9.9, 10.0, 18.9, 19.0, 99.0):
        rules.now = moment
        rules.connections.cut_slow()
        closed.append([stream is not None and stream.is_closed for stream in (silent, again, sending, answered)])
    assert closed == [[False] * 4, *[[True, False, False, False]] * 2, *[[True, True, False, False]] * 2]
    assert len(rules.connections) == 2


def test_an_answer_has_to_be_taken_at_a_least_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_taken_bytes", lambda stream: stream.taken)
    rules = Rules(HttpSection(trusted_proxies=()))
    slow, trickling, unread, done = opened(rules, *["203.0.113.1"] * 4)
    for stream in (slow, trickling, unread, done):
        stream.is_writing = True
    for step in range(9):
        rules.now = 5.0 * step
        slow.taken += 2048
        trickling.taken += 1
        done.is_writing = step % 2 == 0
        rules.connections.cut_slow()
    assert [stream.is_closed for stream in (slow, trickling, unread, done)] == [False, True, True, False]


def test_the_oldest_answer_that_is_not_read_makes_room() -> None:
    rules = Rules(HttpSection(trusted_proxies=(), max_connections=3))
    busy, unread, newer = opened(rules, *(f"203.0.113.{number}" for number in range(3)))
    assert rules.open("198.51.100.1") is None, "all three wait for us"
    unread.is_writing = newer.is_writing = True
    assert rules.open("198.51.100.1") is not None
    assert [stream.is_closed for stream in (busy, unread, newer)] == [False, True, False]


def test_a_new_connection_has_time_to_send_its_request() -> None:
    rules = Rules(HttpSection(trusted_proxies=(), max_connections=3))
    first, second = opened(rules, "203.0.113.0", "203.0.113.1")
    new = rules.open("198.51.100.1", is_busy=False)
    assert new is not None
    first.is_writing = second.is_writing = True
    assert rules.open("203.0.113.3") is not None
    assert [stream.is_closed for stream in (first, second, new)] == [True, False, False]
    rules.now = 1.0
    assert rules.open("203.0.113.4") is not None
    assert [stream.is_closed for stream in (second, new)] == [False, True]
