"""Slow connections, which must not affect other clients, and a stop under load, which must lose nothing."""

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
"""Passwords hashed one after the other."""
IN_A_ROW = 16
"""Clients under load, each with one request after the other on a persistent connection."""
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
    """Return the processor seconds that the event loop spends on answering a hundred small requests."""
    connection = http.client.HTTPConnection(HOST, daemon.port, timeout=30)
    before = loop_seconds(daemon.pid)
    for _request in range(REQUESTS):
        assert ask(connection, "/api/config") == 200
    connection.close()
    return loop_seconds(daemon.pid) - before


def least_work(daemon: Daemon) -> float:
    """Return the least of three measurements: other processes and garbage collections only add to one."""
    return min(work_for_a_neighbour(daemon) for _round in range(3))


def loop_seconds(pid: int) -> float:
    """Return the processor time of the daemon's main thread, which runs the loop; other processes do not affect it."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text("ascii").split()[0]) / 1e9


def dawdle(exit_stack: ExitStack, port: int) -> list[socket.socket]:
    """Open connections that have sent half a request."""
    half = b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    sockets = []
    for number in range(DAWDLERS):
        dawdler = exit_stack.enter_context(socket.create_connection((HOST, port)))
        dawdler.sendall(half if number % 2 else half[:40])
        sockets.append(dawdler)
    return sockets


def test_five_hundred_dawdlers_cost_nobody_else_anything(stack: Stack) -> None:
    work_for_a_neighbour(stack.daemon)  # everything is loaded
    alone = least_work(stack.daemon)
    with ExitStack() as exit_stack:
        dawdlers = dawdle(exit_stack, stack.daemon.port)
        ask_until(  # all are accepted
            lambda: scrape(stack.daemon).of("companion_http_connections"), lambda connections: connections > DAWDLERS
        )
        beside = least_work(stack.daemon)
        for dawdler in dawdlers:
            dawdler.sendall(b" ")  # none of them was cut before its time
    assert beside < 2 * alone, f"{alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms beside {DAWDLERS}"


@dataclass
class Client:
    """Sends requests until the server announces that it closes, or refuses a new connection."""

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
        """Return False if the server did not accept the request; an accepted request must be answered."""
        body = json.dumps({"username": f"nobody_{self.number}_{self.answered}", "password": "a-secret"})
        try:
            connection.request("POST", "/api/login", body, {"Content-Type": "application/json"})
        except OSError:
            return False
        try:
            response = connection.getresponse()
            text = response.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            return False  # closed between two requests, as any persistent connection may be
        except (OSError, http.client.HTTPException) as error:
            self.lost.append(repr(error))
            return False
        if response.status != 401 or json.loads(text)["code"] != "bad_credentials":
            self.lost.append(text.decode())
        return response.getheader("Connection") != "close"


def test_a_stop_waits_for_every_password_that_is_being_checked(tmp_path: Path) -> None:
    """All were accepted before the stop: each must get a reply instead of a closed connection."""
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
