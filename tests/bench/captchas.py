"""Captchas served over HTTP, and the latency of a trivial request on another connection meanwhile.

`python -m tests.bench.captchas PORT COUNT` is the load, in its own process; it prints captchas per second.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from tests.support.daemon import HOST
from tests.support.quick_start import REPOSITORY

CAPTCHAS = 1000
CONNECTIONS = 8
PAUSE = 0.002  # seconds between two probes
CONFIG: dict[str, dict[str, Any]] = {"captcha": {"pictures_per_client": []}}
"""The config the daemon needs: one client requests all captchas."""


@dataclass(frozen=True)
class CaptchaResult:
    """Captchas per second, and the 99th percentile of a trivial request meanwhile, in milliseconds."""

    per_second: float
    p99: float


def measure_captchas(port: int, runs: int) -> CaptchaResult:
    """Return the medians of the runs."""
    found = [_measure_once(port) for _run in range(runs)]
    return CaptchaResult(
        statistics.median(figures.per_second for figures in found),
        statistics.median(figures.p99 for figures in found),
    )


def _measure_once(port: int) -> CaptchaResult:
    command = [sys.executable, "-m", "tests.bench.captchas", str(port), str(CAPTCHAS)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # printed when the load begins
        latencies = list(_probe(port, process))
        per_second = float(process.stdout.read())
    assert process.returncode == 0
    return CaptchaResult(per_second, statistics.quantiles(latencies, n=100)[-1])


def _probe(port: int, load: "subprocess.Popen[str]") -> Iterator[float]:
    """Send one trivial request after the other until the load is done, and yield the milliseconds of each."""
    connection = HTTPConnection(HOST, port, timeout=10)
    while load.poll() is None:
        began = time.perf_counter()
        connection.request("GET", "/health/alive")
        connection.getresponse().read()
        yield (time.perf_counter() - began) * 1000
        time.sleep(PAUSE)
    connection.close()


async def _ask(port: int, count: int) -> None:
    """Request captchas one after the other, on one connection that is kept alive."""
    reader, writer = await asyncio.open_connection(HOST, port)
    for _captcha in range(count):
        writer.write(b"GET /api/captcha/generate HTTP/1.1\r\nHost: bench\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    writer.close()


async def _main(port: int, count: int) -> float:
    """Return captchas per second over all connections, without the first one, for which Pillow is imported."""
    await _ask(port, 1)
    print("asking", flush=True)
    began = time.perf_counter()
    await asyncio.gather(*(_ask(port, count // CONNECTIONS) for _connection in range(CONNECTIONS)))
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    print(asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]))))
