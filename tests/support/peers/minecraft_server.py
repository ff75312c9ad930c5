"""Fake game server for Server List Ping: handshake, status, ping. It can be told to misbehave."""

import contextlib
import json
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

STATUS: dict[str, Any] = {
    "version": {"name": "Paper 1.21.4", "protocol": 769},
    "players": {
        "online": 2,
        "max": 20,
        "sample": [
            {"name": "Alice", "id": "4566e69f-c907-48ee-8d71-d7ba5aa00d20"},
            {"name": "Bob", "id": "7125ba8b-1c86-4508-b92b-b5c042ccfe2b"},
        ],
    },
    "description": {"text": "§6Oakvale", "extra": [{"text": " – ", "bold": True}, "open ", {"text": "to all"}]},
    "enforcesSecureChat": False,
}
TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class Handshake:
    """First packet of a client."""

    host: str
    port: int
    next_state: int
    version: int = -1
    """Protocol number; -1: the client names none."""


class Conversation:
    """One connection: packets in, packets out."""

    def __init__(self, handler: socketserver.StreamRequestHandler) -> None:
        self._handler = handler

    def receive(self) -> tuple[int, bytes]:
        """Return id and content of the next packet. Raises EOFError when the client is gone."""
        content = self._read(self._read_number())
        packet_id, length = _number_in(content)
        return packet_id, content[length:]

    def send(self, packet_id: int, content: bytes) -> None:
        body = number(packet_id) + content
        self.send_raw(number(len(body)) + body)

    def send_raw(self, data: bytes) -> None:
        self._handler.wfile.write(data)

    def _read(self, length: int) -> bytes:
        data: bytes = self._handler.rfile.read(length)
        if len(data) < length:
            raise EOFError
        return data

    def _read_number(self) -> int:
        written = self._read(1)
        while written[-1] & 0x80:
            written += self._read(1)
        return _number_in(written)[0]


Answer = Callable[["MinecraftServer", Conversation], None]


def honest(server: "MinecraftServer", client: Conversation) -> None:
    """Answer as a real server does: the status, and the ping's echo."""
    _answer_status(server, client)
    packet_id, payload = client.receive()
    assert packet_id == 1
    client.send(1, payload)


def without_ping(server: "MinecraftServer", client: Conversation) -> None:
    """Answer as some proxies do: the status, then hang up."""
    _answer_status(server, client)


def silent(server: "MinecraftServer", client: Conversation) -> None:
    """Accept the request and send nothing for as long as the server runs."""
    server.is_over.wait(TIMEOUT)


def dripping(server: "MinecraftServer", client: Conversation) -> None:
    """Send one byte now and then: never silent for long, and never done."""
    client.send_raw(number(1000))
    while not server.is_over.wait(0.01):
        client.send_raw(b"\0")


def endless(server: "MinecraftServer", client: Conversation) -> None:
    """Announce two gigabytes and begin to send them."""
    client.send_raw(number(2**31 - 1))
    while not server.is_over.is_set():
        client.send_raw(b"x" * 65536)


def saying(data: bytes) -> Answer:
    """Build an answer that sends these bytes and hangs up."""
    return lambda server, client: client.send_raw(data)


def only_for(version: int, refusal: bytes = b"") -> Answer:
    """Build an answer that sends others than clients of this version the refusal, and hangs up.

    Glowstone sends none (read in its source: `GlowSession.disconnect`); servers that take the status for a login send
    a login's disconnect (read in a decompiled server of 1.8, and in Pumpkin).
    """

    def answer(server: "MinecraftServer", client: Conversation) -> None:
        if server.handshakes[-1].version == version:
            honest(server, client)
        else:
            client.send_raw(refusal)

    return answer


class MinecraftServer:
    """Context manager. `status` is sent as JSON, `answer` is its behaviour, `handshakes` those it received."""

    def __init__(self, status: Mapping[str, Any] | None = None, answer: Answer = honest, port: int = 0) -> None:
        self.status = dict(STATUS if status is None else status)
        self.answer = answer
        self.is_over = threading.Event()
        self.handshakes: list[Handshake] = []
        self._news = threading.Condition()
        self._wanted_port = port

    @property
    def port(self) -> int:
        port: int = self._server.server_address[1]
        return port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._server = _Listener(("127.0.0.1", self._wanted_port), self._handler_class())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for_handshakes(self, count: int) -> None:
        """Wait until it has received so many. Raises AssertionError after some seconds."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.handshakes) >= count, TIMEOUT), self.handshakes

    def greet(self, client: Conversation) -> None:
        """Take the handshake and the request, then answer as told."""
        packet_id, content = client.receive()
        assert packet_id == 0
        self._note(_handshake_in(content))
        assert client.receive() == (0, b""), "that is no request for the status"
        self.answer(self, client)

    def _note(self, handshake: Handshake) -> None:
        with self._news:
            self.handshakes.append(handshake)
            self._news.notify_all()

    def _handler_class(self) -> type[socketserver.StreamRequestHandler]:
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, EOFError):  # the client has had enough
                    server.greet(Conversation(self))

        return Handler


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


def number(value: int) -> bytes:
    """Encode a VarInt: seven bits in each byte, the lowest first."""
    rest, written = value & 0xFFFFFFFF, b""
    while rest > 0x7F:
        written += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return written + bytes([rest])


def text(value: str) -> bytes:
    """As the protocol writes it: its length in bytes, then UTF-8."""
    data = value.encode("utf-8", "surrogatepass")
    return number(len(data)) + data


def _answer_status(server: MinecraftServer, client: Conversation) -> None:
    client.send(0, text(json.dumps(server.status)))


def _handshake_in(content: bytes) -> Handshake:
    version, taken = _number_in(content)
    content = content[taken:]
    length, taken = _number_in(content)
    host, rest = content[taken : taken + length], content[taken + length :]
    [port] = struct.unpack(">H", rest[:2])
    return Handshake(host.decode(), port, _number_in(rest[2:])[0], version - 2**32 if version >> 31 else version)


def _number_in(content: bytes) -> tuple[int, int]:
    """The number at the beginning, and how many bytes it takes."""
    value = 0
    for place, byte in enumerate(content[:5]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value, place + 1
    raise AssertionError("a number without an end")
