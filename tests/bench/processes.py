"""The servers that are measured side by side: the bare handler, the peer and the companion."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.authme.authme_database import MariaDBSchema
from tests.support.daemon import HOST
from tests.support.ports import free_port
from tests.support.quick_start import REPOSITORY
from tests.support.stack import Stack
from tests.support.watching import ask_until

PEERS_PYTHON = REPOSITORY / ".venv-bench" / "bin" / "python"
PEER = Path(__file__).parent / "peer" / "app.py"


@dataclass(frozen=True)
class Server:
    """A server to be measured: its name, the port it listens on, and its process."""

    name: str
    port: int
    pid: int


@contextmanager
def bare_handler() -> Iterator[Server]:
    """Serve the bare Tornado handler."""
    port = free_port()
    with _serving([sys.executable, "-m", "tests.bench.bare", str(port)], port) as pid:
        yield Server("bare", port, pid)


@contextmanager
def peer(stack: Stack, smtp_port: int) -> Iterator[Server]:
    """Serve the peer on the stack's tables."""
    assert PEERS_PYTHON.exists(), "the peer has an environment of its own: `make bench` makes it"
    schema = stack.table.database
    assert isinstance(schema, MariaDBSchema)
    port, url = free_port(), schema.database.url.replace("mysql://", "mysql+asyncmy://") + "?charset=utf8mb4"
    with _serving([str(PEERS_PYTHON), str(PEER), str(port), url, str(smtp_port)], port) as pid:
        yield Server("peer", port, pid)


def companion(stack: Stack) -> Server:
    """Return the stack's daemon as a server to be measured."""
    return Server("companion", stack.daemon.port, stack.daemon.pid)


@contextmanager
def _serving(command: Sequence[str], port: int) -> Iterator[int]:
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as process:
        try:
            ask_until(lambda: process.poll() is not None or _is_listening(port), bool)
            assert process.poll() is None, f"{command} has ended"
            yield process.pid
        finally:
            process.terminate()


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
