"""The PROXY protocol: the header with which a TCP proxy or a tunnel names its client."""

import logging
import random
import re
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from regsvc.config.host_sections import HttpSection, ServerSection
from regsvc.config.sections import Config
from regsvc.http.server import count_missing, find_client
from tests.support.certificate import make_certificate
from tests.support.live_api import LiveApi, make_features
from tests.support.probe_routes import ROUTES, serve

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ASK = b"GET /api/open HTTP/1.1\r\nHost: play.example.org\r\n\r\n"
ALICE, BOB = "203.0.113.7", "2001:db8::b0b"
TLV = b"\x02\x00\x10play.example.org"


def block(command: int, family: int, addresses: bytes = b"", more: bytes = b"") -> bytes:
    """Return a header of version 2."""
    return SIGNATURE + bytes((command, family)) + struct.pack(">H", len(addresses + more)) + addresses + more


def addresses(client: str, server: str = "192.0.2.1") -> bytes:
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    server = "2001:db8::1" if ":" in client else server
    return socket.inet_pton(family, client) + socket.inet_pton(family, server) + struct.pack(">HH", 56324, 443)


NAMED = {
    "v1": (f"PROXY TCP4 {ALICE} 192.0.2.1 56324 443\r\n".encode(), ALICE),
    "v1 IPv6": (f"PROXY TCP6 {BOB} 2001:db8::1 65535 0\r\n".encode(), BOB),
    "v1, the longest": (
        f"PROXY TCP6 {':'.join(['ffff'] * 8)} {':'.join(['ffff'] * 8)} 65535 65535\r\n".encode(),
        ":".join(["ffff"] * 8),
    ),
    "v2": (block(0x21, 0x11, addresses(ALICE)), ALICE),
    "v2 IPv6": (block(0x21, 0x21, addresses(BOB)), BOB),
    "v2 with TLVs": (block(0x21, 0x11, addresses(ALICE), TLV), ALICE),
    "v2, the longest": (block(0x21, 0x11, addresses(ALICE), b"\x04\xff\xf0" + bytes(65520)), ALICE),
}
UNNAMED = {
    "v1 unknown": b"PROXY UNKNOWN\r\n",
    "v1 unknown, with more": b"PROXY UNKNOWN ffff::1 what ever 1 2\r\n",
    "v2 local": block(0x20, 0x00),
    "v2 local with addresses": block(0x20, 0x11, addresses(ALICE), TLV),
    "v2 unspecified": block(0x21, 0x00, b"", TLV),
    "v2 UNIX": block(0x21, 0x31, bytes(216)),
    "v2 UDP": block(0x21, 0x12, addresses(ALICE)),
}
INVALID = {
    "HTTP": ASK,
    "TLS": bytes.fromhex("160301020001") + bytes(100),
    "v1, lower case": b"proxy tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
    "v1, leading zero": b"PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n",
    "v1, family": b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
    "v1, scope": b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
    "v1, server": b"PROXY TCP4 1.2.3.4 here 1 2\r\n",
    "v1, port": b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
    "v1, port with zero": b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
    "v1, spaces": b"PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "v1, short": b"PROXY TCP4\r\n" + ASK,
    "v1, LF": b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n" + ASK,
    "v1, too long": b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
    "v1, NUL": b"PROXY TCP4 1.2.3.4\0 1.2.3.4 1 2\r\n",
    "v1, other": b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "v2, version": block(0x11, 0x11, addresses(ALICE)),
    "v2, command": block(0x22, 0x11, addresses(ALICE)),
    "v2, family": block(0x21, 0x41, addresses(ALICE)),
    "v2, transport": block(0x21, 0x13, addresses(ALICE)),
    "v2, too short": block(0x21, 0x21, addresses(ALICE)),
}


@pytest.fixture(scope="module")
def proxied() -> Iterator[LiveApi]:
    """An API that takes headers from 127.0.0.1, and from no other address of this machine."""
    with serve(proxy_protocol=True, trusted_proxies=(IPv4Network("127.0.0.1"),)) as api:
        yield api


def read_answer(connection: socket.socket) -> bytes:
    """Return all of an answer, or what came before the connection was closed."""
    answer = b""
    try:
        while not (head := answer.partition(b"\r\n\r\n"))[1] or len(head[2]) < content_length(head[0]):
            if not (received := connection.recv(65536)):
                break
            answer += received
    except ConnectionResetError:
        pass
    return answer


def content_length(head: bytes) -> int:
    found = re.search(rb"Content-Length: (\d+)", head)
    return int(found[1]) if found else 0


def told_address(answer: bytes) -> str:
    found = re.search(rb'"address":"([^"]+)"', answer)
    assert found, answer
    return found[1].decode()


def ask(api: LiveApi, *parts: bytes, source: str = "127.0.0.1") -> bytes:
    """Send the parts one by one, and return the answer."""
    with socket.socket() as connection:
        connection.bind((source, 0))
        connection.settimeout(10)
        connection.connect(("127.0.0.1", api.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        return read_answer(connection)


# --- On the wire ---


@pytest.mark.parametrize(("header", "client"), NAMED.values(), ids=NAMED)
def test_the_client_is_the_one_that_the_header_names(proxied: LiveApi, header: bytes, client: str) -> None:
    assert told_address(ask(proxied, header + ASK)) == client
    pieces = [(header + ASK)[at : at + 1] for at in range(len(header + ASK))] if len(header) < 300 else [header, ASK]
    assert told_address(ask(proxied, *pieces)) == client


@pytest.mark.parametrize("header", UNNAMED.values(), ids=UNNAMED)
def test_a_header_that_names_nobody_leaves_the_address_of_the_connection(proxied: LiveApi, header: bytes) -> None:
    assert told_address(ask(proxied, header + ASK)) == "127.0.0.1"


@pytest.mark.parametrize("start", INVALID.values(), ids=INVALID)
def test_a_proxys_connection_without_a_valid_header_is_closed(
    proxied: LiveApi, start: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert ask(proxied, start) == b""
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING] == []


def test_all_requests_of_a_connection_are_its_clients_whatever_they_claim(proxied: LiveApi) -> None:
    with proxied.connect() as connection:
        for claimed in (b"", b"X-Forwarded-For: 198.51.100.1\r\n", b"X-Forwarded-For: 127.0.0.1\r\n"):
            begin = NAMED["v2"][0] if not claimed else b""
            connection.sendall(begin + ASK.replace(b"\r\n\r\n", b"\r\n" + claimed + b"\r\n"))
            assert told_address(read_answer(connection)) == ALICE


def test_a_proxy_that_speaks_for_itself_may_name_clients_by_request(proxied: LiveApi) -> None:
    forwarded = ASK.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n")
    assert told_address(ask(proxied, UNNAMED["v2 local"] + forwarded)) == "198.51.100.1"


def test_other_peers_are_clients_and_their_headers_are_no_http(proxied: LiveApi) -> None:
    assert told_address(ask(proxied, ASK, source="127.0.0.9")) == "127.0.0.9"
    for header, _client in (NAMED["v1"], NAMED["v2"]):
        assert ask(proxied, header + ASK, source="127.0.0.9").startswith(b"HTTP/1.1 400 ")


def test_a_missing_header_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    with serve(proxy_protocol=True) as api, caplog.at_level(logging.WARNING):
        for _number in range(3):
            assert ask(api, ASK) == b""
    assert [record.getMessage() for record in caplog.records] == [
        "closing a connection from 127.0.0.1, one of http.trusted_proxies: it begins without a valid PROXY protocol "
        "header, which http.proxy_protocol requires; this is logged once a minute"
    ]


@pytest.mark.parametrize("beginning", [b"", b"PROXY TC", SIGNATURE + b"\x21\x11\xff\xff" + bytes(1000)])
def test_a_header_has_as_long_as_those_of_a_request(beginning: bytes) -> None:
    with serve(proxy_protocol=True, header_timeout=timedelta(milliseconds=200)) as api:
        assert ask(api, beginning) == b""
        assert told_address(ask(api, NAMED["v1"][0] + ASK)) == ALICE


def test_connections_count_for_their_client_once_it_is_known() -> None:
    with serve(proxy_protocol=True, max_connections_per_client=4) as api, ExitStack() as opened:

        def connect(client: str) -> socket.socket:
            connection = opened.enter_context(api.connect())
            connection.sendall(block(0x21, 0x11, addresses(client)) + ASK)
            assert told_address(read_answer(connection)) == client
            return connection

        others = [connect(f"198.51.100.{number}") for number in range(6)]
        first, *rest = [connect(ALICE) for _number in range(5)]
        assert first.recv(1) == b""  # it has made room
        for connection in (*others, *rest):
            connection.sendall(ASK)
            assert told_address(read_answer(connection))


def test_tls_begins_behind_the_header(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = make_certificate(tmp_path)
    server = ServerSection(tls_cert_file=certificate.certificate_file, tls_key_file=certificate.key_file)
    config = Config(server=server, http=HttpSection(proxy_protocol=True))
    trusting = ssl.create_default_context(cafile=str(certificate.certificate_file))
    with LiveApi(make_features(config), ROUTES) as api, caplog.at_level(logging.INFO):
        for header, client in (NAMED["v1"], NAMED["v2 with TLVs"]):
            with api.connect() as plain:
                plain.sendall(header)
                with trusting.wrap_socket(plain, server_hostname="localhost") as secure:
                    secure.sendall(ASK)
                    assert told_address(read_answer(secure)) == client
        for _number in range(50):  # as a balancer checks the port
            with api.connect() as plain:
                plain.sendall(NAMED["v1"][0])
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []


# --- Switched off ---


@pytest.mark.parametrize("header", [NAMED["v1"][0], UNNAMED["v1 unknown"], NAMED["v2 IPv6"][0], UNNAMED["v2 local"]])
def test_a_header_that_nobody_expects_is_refused_and_the_key_is_named_once(
    header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serve() as api, caplog.at_level(logging.WARNING):
        for _number in range(3):
            assert ask(api, header + ASK).startswith(b"HTTP/1.1 400 ")
        assert told_address(ask(api, ASK)) == "127.0.0.1"
    assert [record.getMessage() for record in caplog.records] == [
        "a connection from 127.0.0.1 begins with a PROXY protocol header: if the proxy or tunnel there sends it, set "
        "http.proxy_protocol = true; this is logged once a minute"
    ]


# --- Any bytes ---


def test_any_bytes_are_a_header_or_a_refusal_and_never_more_than_was_asked_for() -> None:
    generator = random.Random(49)
    valid = [header for header, _client in NAMED.values() if len(header) < 300] + [*UNNAMED.values()]
    outcomes = set()
    for _number in range(20_000):
        data = bytearray(generator.choice([*valid, *INVALID.values()]))
        for _change in range(generator.randrange(4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        data = data[: generator.randrange(len(data) + 1)] if generator.random() < 0.3 else data
        taken = 0
        try:
            while missing := count_missing(data[:taken]):
                assert missing > 0
                if taken + missing > len(data):
                    outcomes.add("incomplete")
                    break
                taken += missing
            else:
                outcomes.add("none" if find_client(bytes(data[:taken])) is None else "client")
                assert taken <= len(data)
        except ValueError:
            outcomes.add("invalid")
    assert outcomes == {"incomplete", "none", "client", "invalid"}


@pytest.mark.parametrize("header", [*(header for header, _client in NAMED.values()), *UNNAMED.values()])
def test_not_one_byte_behind_a_header_is_taken(header: bytes) -> None:
    taken = 0
    while missing := count_missing((header + ASK)[:taken]):
        taken += missing
    assert taken == len(header)
