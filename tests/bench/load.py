"""A bounded load of GET requests on loopback, from a process of its own that needs little CPU time.

They are those of a thousand clients behind a proxy, each of which has its line in the log: one client alone would soon
have no more (`MAX_LINES`).

That is `wrk` where it is installed. Else `python -m tests.bench.load PORT PATHS_FILE SECONDS`: sixteen connections,
each with one open request, without a framework, since the load must not take a core from the daemon. It prints JSON.
"""

import itertools
import json
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.quick_start import REPOSITORY

CONNECTIONS = 16
SECONDS = 2.0
CLIENTS = 1000
# wrk counts whole seconds only; the paths are read once, and asked one after the other
WRK_SCRIPT = """\
local paths, number, client = {{}}, 0, 0
for line in io.lines("{paths}") do paths[#paths + 1] = line end
request = function()
  number = number % #paths + 1
  client = (client + 1) % {clients}
  local address = "203.0." .. math.floor(client / 250) .. "." .. client % 250
  return wrk.format("GET", paths[number], {{["X-Forwarded-For"] = address}})
end
"""
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Load:
    """Number of requests, requests per second, and the 99th percentile of their latency in milliseconds."""

    count: int
    rate: float
    p99: float


class Paths:
    """The paths of a load, written to a file beside wrk's script."""

    def __init__(self, directory: Path, name: str, paths: Sequence[str]) -> None:
        self.file = directory / f"{name}.txt"
        self.script = directory / f"{name}.lua"
        self.file.write_text("\n".join(paths) + "\n", encoding="utf-8")
        self.script.write_text(WRK_SCRIPT.format(paths=self.file, clients=CLIENTS), encoding="utf-8")


def load(port: int, paths: Paths, seconds: float = SECONDS) -> Load:
    """Send requests for some seconds; AssertionError if one was answered with another status than 200."""
    wrk = shutil.which("wrk")
    if wrk is None:
        return _load_with_python(port, paths, seconds)
    options = ["-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--latency", "-s", str(paths.script)]
    command = [wrk, *options, f"http://127.0.0.1:{port}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in text, text
    assert "Socket errors" not in text, text
    count = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
    assert count is not None, text
    assert rate is not None, text
    assert p99 is not None, text
    return Load(int(count[1]), float(rate[1]), float(p99[1]) * _UNITS[p99[2]])


def _load_with_python(port: int, paths: Paths, seconds: float) -> Load:
    command = [sys.executable, "-m", "tests.bench.load", str(port), str(paths.file), str(seconds)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return Load(*json.loads(done.stdout))


@dataclass
class Exchange:
    """One connection: its open request and what has come of the reply."""

    connection: socket.socket
    reply: bytearray
    began: float = 0.0


def send_all(port: int, paths: Sequence[str], seconds: float) -> Load:
    """Load the server with this process."""
    addresses = itertools.cycle([f"203.0.{client // 250}.{client % 250}" for client in range(CLIENTS)])
    requests = (
        f"GET {path} HTTP/1.1\r\nHost: bench\r\nX-Forwarded-For: {next(addresses)}\r\n\r\n".encode()
        for path in itertools.cycle(paths)
    )
    selector = selectors.EpollSelector()

    def ask(exchange: Exchange) -> None:
        exchange.reply.clear()
        exchange.began = time.perf_counter()
        exchange.connection.sendall(next(requests))

    for _connection in range(CONNECTIONS):
        exchange = Exchange(socket.create_connection(("127.0.0.1", port)), bytearray())
        exchange.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(exchange.connection, selectors.EVENT_READ, exchange)
        ask(exchange)
    latencies: list[float] = []
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        for key, _events in selector.select(timeout=1):
            exchange = key.data
            exchange.reply += exchange.connection.recv(1 << 16)
            if is_whole(exchange.reply):
                latencies.append((time.perf_counter() - exchange.began) * 1000)
                ask(exchange)
    elapsed = time.perf_counter() - started
    return Load(len(latencies), len(latencies) / elapsed, statistics.quantiles(latencies, n=100)[-1])


def is_whole(reply: bytearray) -> bool:
    head, separator, body = reply.partition(b"\r\n\r\n")
    if not separator:
        return False
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return len(body) >= length


if __name__ == "__main__":
    done = send_all(int(sys.argv[1]), Path(sys.argv[2]).read_text().split(), float(sys.argv[3]))
    print(json.dumps([done.count, done.rate, done.p99]))
