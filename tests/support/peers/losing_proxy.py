"""Proxy in front of the daemon that hangs up in the middle of an answer, as a phone does in a tunnel.

Before the first byte of an answer, Firefox would send the request again by itself, several times.
"""

import socket
import threading
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"


class LosingProxy:
    """A context manager that listens at `address` and forwards to `server_port`, but not the answers of `lose`."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._to_lose: list[bytes] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))
        self.address = f"http://{HOST}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for opened in (self._listener, *self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def lose(self, path: str, times: int = 1) -> None:
        """Hang up within the next answers of this POST route, whose requests the daemon has handled."""
        self._to_lose += [f"POST /api/{path} ".encode()] * times

    @property
    def has_lost_all(self) -> bool:
        """Return whether every answer that was to be lost is."""
        return not self._to_lose

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                server = socket.create_connection((HOST, self._server_port))
                self._open += [client, server]
                threading.Thread(target=self._forward_answers, args=(server, client), daemon=True).start()
                threading.Thread(target=self._forward_requests, args=(client, server), daemon=True).start()

    def _forward_answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def _forward_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                line = data.partition(b"HTTP/1.1")[0]
                if line in self._to_lose:
                    self._to_lose.remove(line)
                    self._send_elsewhere(data, client)
                    client.shutdown(socket.SHUT_RDWR)
                    break
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _send_elsewhere(self, request: bytes, client: socket.socket) -> None:
        """Send a request on a connection of its own, and pass on what is before the answer's body."""
        head, _end, body = request.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        with socket.create_connection((HOST, self._server_port)) as server:
            server.sendall(request)
            while len(body) < length:
                more = client.recv(65536)
                body += more
                server.sendall(more)
            head, end, _body = server.recv(65536).partition(b"\r\n\r\n")
            client.sendall(head + end)
