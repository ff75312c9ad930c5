"""Connections that dawdle, and a stop in the rush: nobody pays for the first, nothing is lost in the second."""

import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.daemon import HOST, Daemon
from tests.support.stack import Stack
from tests.support.watching import ask_until, scrape

DAWDLERS = 500
REQUESTS = 100
IN_LINE = 8
"""Passwords that wait for one another."""
IN_A_ROW = 16
"""Clients in the rush, each with one request after the other on a connection it keeps."""
WARM = 5


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack("sqlite", tmp_path) as stack:
        yield stack


def ask(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def work_for_a_neighbour(daemon: Daemon) -> float:
    """Seconds of processor time that the event loop spends on a hundred small requests, all of them answered."""
    connection = http.client.HTTPConnection(HOST, daemon.port, timeout=30)
    before = loop_seconds(daemon.pid)
    for _request in range(REQUESTS):
        assert ask(connection, "/api/config") == 200
    connection.close()
    return loop_seconds(daemon.pid) - before


def loop_seconds(pid: int) -> float:
    """Processor time of the daemon's main thread, on which its loop runs: other processes do not lengthen it."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text("ascii").split()[0]) / 1e9


def dawdle(exit_stack: ExitStack, port: int) -> list[socket.socket]:
    """Connections that have sent half a request, and go on a byte at a time."""
    half = b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    sockets = []
    for number in range(DAWDLERS):
        dawdler = exit_stack.enter_context(socket.create_connection((HOST, port)))
        dawdler.sendall(half if number % 2 else half[:40])
        sockets.append(dawdler)
    return sockets


def test_five_hundred_dawdlers_cost_nobody_else_anything(stack: Stack) -> None:
    work_for_a_neighbour(stack.daemon)  # everything is loaded
    alone = work_for_a_neighbour(stack.daemon)
    with ExitStack() as exit_stack:
        dawdlers = dawdle(exit_stack, stack.daemon.port)
        beside = work_for_a_neighbour(stack.daemon)
        for dawdler in dawdlers:
            dawdler.sendall(b" ")  # none of them was cut before its time
    assert beside < 2 * alone, f"{alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms beside {DAWDLERS}"


@dataclass
class Client:
    """Asks until the server says that it closes, or does not answer a new connection any more."""

    port: int
    number: int
    answered: int = 0
    is_warm: threading.Event = field(default_factory=threading.Event)
    """Set when some requests were answered."""
    lost: list[str] = field(default_factory=list)

    def run(self) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        while self._is_answered(connection):
            self.answered += 1
            if self.answered == WARM:
                self.is_warm.set()
        connection.close()

    def _is_answered(self, connection: http.client.HTTPConnection) -> bool:
        """False: nobody took the request, so it may be sent again elsewhere. One that was taken has to be answered."""
        body = json.dumps({"username": f"nobody_{self.number}_{self.answered}", "password": "a-secret"})
        try:
            connection.request("POST", "/api/login", body, {"Content-Type": "application/json"})
        except OSError:
            return False
        try:
            response = connection.getresponse()
            text = response.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            return False  # closed between two requests, as any kept connection may be
        except (OSError, http.client.HTTPException) as error:
            self.lost.append(repr(error))
            return False
        if response.status != 401 or json.loads(text)["code"] != "bad_credentials":
            self.lost.append(text.decode())
        return response.getheader("Connection") != "close"


def test_a_stop_waits_for_every_password_that_is_being_checked(tmp_path: Path) -> None:
    """All of them were taken when the stop comes: none may find its connection closed instead of an answer."""
    slow = {"settings.security.passwordHash": "BCRYPT", "ExternalBoardOptions.bCryptLog2Round": 9}
    one_by_one = {"auth": {"max_concurrent_hashes": 1}}
    with Stack("sqlite", tmp_path, authme=slow, config=one_by_one) as stack, ExitStack() as exit_stack:
        connections = [http.client.HTTPConnection(HOST, stack.daemon.port, timeout=10) for _number in range(IN_LINE)]
        for number, connection in enumerate(connections):
            exit_stack.callback(connection.close)
            body = json.dumps({"username": f"nobody_{number}", "password": "a-secret"})
            connection.request("POST", "/api/login", body, {"Content-Type": "application/json"})
        ask_until(lambda: scrape(stack.daemon).of("companion_hash_waiting"), lambda waiting: waiting >= IN_LINE // 2)
        stack.daemon.send(signal.SIGTERM)
        answers = [connection.getresponse() for connection in connections]
        assert {(answer.status, json.loads(answer.read())["code"]) for answer in answers} == {(401, "bad_credentials")}
        assert stack.daemon.wait_for_end() == 0


def test_a_stop_in_the_rush_loses_no_answer(stack: Stack) -> None:
    clients = [Client(stack.daemon.port, number) for number in range(IN_A_ROW)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    for client in clients:
        assert client.is_warm.wait(30), client
    started = time.monotonic()
    stack.daemon.send(signal.SIGTERM)
    assert stack.daemon.wait_for_end() == 0
    assert time.monotonic() - started < 10
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [lost for client in clients for lost in client.lost] == []
