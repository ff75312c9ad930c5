"""Fake remote console, as the game implements it: players can be listed, kicked, banned and pardoned.

Like the real one it expects one packet per `recv`, closes the connection otherwise, and splits a long reply into parts
of 4096 characters. It can be told to misbehave.
"""

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.ports import free_port

HOST = "127.0.0.1"
PASSWORD = "the-consoles-password"
WAIT = 60.0  # seconds until a test fails

_BIGGEST_PACKET = 1460
_PIECE = 4096
_LOGIN, _LOGGED_IN, _COMMAND, _ANSWER = 3, 2, 2, 0


class RconServer:
    """`start` and `stop` may alternate; the port stays.

    `before` is called with every command before it is executed. `answers` replaces the reply to a command, by its
    first word. `goodbyes`: what players read who were put out, by name. `raw`, where set, is sent in place of every
    reply to a command, and `login_raw` to a login. While `is_slow`, nothing is answered until `stop`. `byte_by_byte`
    sends replies one byte at a time.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.password = PASSWORD
        self.online: set[str] = set()
        self.banned: dict[str, str] = {}
        self.goodbyes: dict[str, str] = {}
        self.commands: list[str] = []
        self.logins = 0
        self.before: Callable[[str], None] = lambda command: None
        self.answers: dict[str, str] = {}
        self.raw: bytes | None = None
        self.login_raw: bytes | None = None
        self.is_slow = False
        self.byte_by_byte = False
        self._news = threading.Condition()
        self._ending = threading.Event()
        self._server: socketserver.ThreadingTCPServer | None = None

    def start(self) -> None:
        self._ending.clear()
        self._server = _Listener((HOST, self.port), self._handler())
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Stop the server; does nothing when it does not run."""
        self._ending.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def properties(self) -> dict[str, object]:
        """Its settings in server.properties; keys as `GameServer.write_properties` takes them."""
        return {"enable_rcon": "true", "rcon_port": self.port, "rcon_password": self.password}

    def received(self, *words: str) -> list[str]:
        """Return the commands so far that begin with one of these words; all of them without any."""
        return [command for command in list(self.commands) if not words or command.split(" ")[0] in words]

    def wait_for(self, *words: str, count: int = 1) -> list[str]:
        """Return those commands once there are so many. Raises AssertionError if they do not come."""
        deadline = time.monotonic() + WAIT
        with self._news:
            while len(commands := self.received(*words)) < count:
                assert self._news.wait(max(0.0, deadline - time.monotonic())), f"only {self.commands}"
        return commands

    def hang_up(self) -> None:
        """As `before`: close the connection without a reply."""
        raise ConnectionResetError

    def answer(self, command: str) -> str:
        """Execute a command and return the reply of the game."""
        verb, _space, rest = command.partition(" ")
        name, _space, reason = rest.partition(" ")
        if verb in self.answers:
            return self.answers[verb]
        found = next((player for player in self.online if player.lower() == name.strip('"').lower()), None)
        if verb == "list":
            return f"There are {len(self.online)} of a max of 20 players online: {', '.join(sorted(self.online))}"
        if verb == "kick":
            self._put_out(found, reason)
            return f"Kicked {found}: {reason}" if found else "No player was found"
        if verb == "ban":
            self.banned[name] = reason
            self._put_out(found, "You are banned from this server")  # seen on a Bukkit server; believed of vanilla
            return f"Banned {name}: {reason}"
        if verb == "pardon":
            return f"Unbanned {name}" if self.banned.pop(name, None) is not None else "Nothing changed"
        return "Unknown or incomplete command, see below for error"

    def _put_out(self, player: str | None, words: str) -> None:
        if player is not None:
            self.online.discard(player)
            self.goodbyes[player] = words

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        server = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    server._serve(self.request)

        return Handler

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(WAIT)
        is_in = False
        while len(data := connection.recv(_BIGGEST_PACKET)) >= 10:
            length, number, kind = struct.unpack_from("<iii", data)
            if length != len(data) - 4:
                return  # two packets at once, or half a one
            text = data[12:-2].decode()
            if self.is_slow:
                self._ending.wait(WAIT)
                return
            if kind == _LOGIN:
                is_in = self._log_in(connection, number, text)
            elif kind == _COMMAND and is_in:
                self._obey(connection, number, text)
            elif is_in:
                self._send(connection, number, _ANSWER, f"Unknown request {kind:x}")
            else:
                self._send(connection, -1, _LOGGED_IN, "")

    def _log_in(self, connection: socket.socket, number: int, password: str) -> bool:
        self.logins += 1
        if self.login_raw is not None:
            connection.sendall(self.login_raw)
            return False
        is_right = password == self.password
        self._send(connection, number if is_right else -1, _LOGGED_IN, "")
        return is_right

    def _obey(self, connection: socket.socket, number: int, command: str) -> None:
        self.before(command)
        answer = self.answer(command)
        with self._news:
            self.commands.append(command)
            self._news.notify_all()
        if self.raw is not None:
            connection.sendall(self.raw)
            return
        pieces = [answer[start : start + _PIECE] for start in range(0, len(answer), _PIECE)] or [""]
        for piece in pieces:
            self._send(connection, number, _ANSWER, piece)

    def _send(self, connection: socket.socket, number: int, kind: int, text: str) -> None:
        packet = packed(number, kind, text)
        for piece in [bytes([byte]) for byte in packet] if self.byte_by_byte else [packet]:
            connection.sendall(piece)


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A `before` that fails is a test that fails by itself."""


def packed(number: int, kind: int, text: str) -> bytes:
    """A packet."""
    body = text.encode()
    return struct.pack("<iii", len(body) + 10, number, kind) + body + b"\0\0"


@contextmanager
def rcon_server() -> Iterator[RconServer]:
    """One that runs while the block does."""
    server = RconServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
