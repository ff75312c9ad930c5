"""Proxy in front of a MariaDB server: another address of the same server, and errors that its nodes would reply with.

It forwards the protocol's packets as they are. A rule may answer a statement with an error of MySQL's instead, as a
node of a cluster does that has lost a race or its quorum.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.support.peers.mariadb import HOST

_QUERY = 3  # the protocol's COM_QUERY


@dataclass(frozen=True)
class ServerError:
    """An error that a server replies with."""

    code: int
    state: str
    text: str

    def packet(self) -> bytes:
        """Return the reply to a statement."""
        payload = b"\xff" + struct.pack("<H", self.code) + b"#" + self.state.encode() + self.text.encode()
        return struct.pack("<I", len(payload))[:3] + b"\x01" + payload


NO_QUORUM = ServerError(1047, "08S01", "WSREP has not yet prepared node for application use")
CUT_OFF_AT_COMMIT = ServerError(1180, "HY000", 'Got error 6 "No such device or address" during COMMIT')
LOST_RACE = ServerError(1213, "40001", "Deadlock found when trying to get lock; try restarting transaction")

Rule = Callable[[str], ServerError | str | None]


class DatabaseProxy:
    """A context manager that listens on `port` and forwards to `server_port`.

    `rule` gets the text of each statement and returns the error to reply with, another statement to forward in its
    place, or None to forward it as it is.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self.rule: Rule = lambda statement: None
        self._open: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> "DatabaseProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for opened in (self._listener, *self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                server = socket.create_connection((HOST, self._server_port))
                self._open += [client, server]
                threading.Thread(target=self._forward_replies, args=(server, client), daemon=True).start()
                threading.Thread(target=self._forward_statements, args=(client, server), daemon=True).start()

    def _forward_replies(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def _forward_statements(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client.makefile("rb") as stream:
            while len(header := stream.read(4)) == 4:
                payload = stream.read(int.from_bytes(header[:3], "little"))
                is_statement = header[3] == 0 and payload[:1] == bytes([_QUERY])
                reply = self.rule(payload[1:].decode("utf-8", "surrogateescape")) if is_statement else None
                if isinstance(reply, ServerError):
                    client.sendall(reply.packet())
                    continue
                if reply is not None:
                    payload = bytes([_QUERY]) + reply.encode("utf-8", "surrogateescape")
                    header = struct.pack("<I", len(payload))[:3] + b"\x00"
                server.sendall(header + payload)
            server.shutdown(socket.SHUT_RDWR)


class FirstTimes:
    """A rule that replies with the error to the first `times` statements that contain `text`, and counts them all."""

    def __init__(self, text: str, error: ServerError, times: int) -> None:
        self._text = text
        self._error = error
        self._times = times
        self.seen = 0

    def __call__(self, statement: str) -> ServerError | None:
        if self._text not in statement:
            return None
        self.seen += 1
        return self._error if self.seen <= self._times else None


class LaggingNode:
    """A rule that makes the server a cluster's node which has not applied the newest rows of a table yet.

    It finds none of them until a connection waits for what was committed elsewhere.
    """

    def __init__(self, table: str) -> None:
        self._table = f"`{table}`"
        self.has_waited = False

    def __call__(self, statement: str) -> ServerError | str | None:
        if statement == "SELECT @@GLOBAL.wsrep_on":
            return "SELECT 1"
        if statement == "SET SESSION wsrep_sync_wait = 1":
            self.has_waited = True
        if not statement.startswith("SELECT") or self.has_waited:
            return None
        return statement.replace(f"FROM {self._table}", f"FROM (SELECT * FROM {self._table} WHERE FALSE)")
