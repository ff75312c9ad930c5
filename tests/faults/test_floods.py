"""R59: a client with more connections than files and memory last for costs nobody else anything.

The clients have addresses of their own on loopback, and no proxy is trusted.
"""

import contextlib
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import HOST, Daemon
from tests.support.stack import Stack
from tests.support.watching import ask_until, scrape

FLOOD = 1200
PER_CLIENT = 64  # http.max_connections_per_client
CROWD = 16
"""Clients that together have more connections than all together may have."""
OWN_FILES = 20
"""Connections to databases and of the tests, which are opened as they are needed."""
MIB = 1024  # KiB
UNITS_MEMORY = 256 * MIB  # MemoryMax= of systemd/companion.service
FLOODER, NEIGHBOUR = "127.0.1.1", "127.0.2.1"

HALF_HEADERS = b"GET /api/config HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_BODY = (
    b"POST /api/questionnaire/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 65536\r\n\r\n"
).ljust(64 * 1024)
UNREAD = b"GET /api/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 40
FLOODS = {"idle": b"", "half-sent headers": HALF_HEADERS, "half-sent bodies": HALF_BODY, "unread answers": UNREAD}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A daemon with a limit of memory."""
    http = {"trusted_proxies": [], "write_timeout": "2 seconds", "status_limit": ["100000 per minute"]}
    with Stack("sqlite", tmp_path_factory.mktemp("flood"), config={"http": http, "log": {"level": "info"}}) as stack:
        ask_from(NEIGHBOUR, stack.daemon)
        limit = (status_kib(stack.daemon, "VmData") + UNITS_MEMORY) * 1024  # not RLIMIT_AS: threads reserve addresses
        resource.prlimit(stack.daemon.pid, resource.RLIMIT_DATA, (limit, limit))
        yield stack


@pytest.fixture
def daemon(request: pytest.FixtureRequest, stack: Stack) -> Daemon:
    _soft, hard = resource.prlimit(stack.daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(stack.daemon.pid, resource.RLIMIT_NOFILE, (min(request.param, hard), hard))
    return stack.daemon


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    """Let this process open as many sockets as a flood needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(daemon: Daemon, address: str) -> socket.socket:
    client = socket.socket()
    client.settimeout(30)
    client.bind((address, 0))
    client.connect((HOST, daemon.port))
    return client


def ask_from(address: str, daemon: Daemon) -> None:
    """Send a request from an address; AssertionError unless it is answered."""
    with connect(daemon, address) as client:
        client.sendall(b"GET /api/config HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")


def flood(opened: ExitStack, daemon: Daemon, address: str, count: int, sent: bytes) -> None:
    """Open connections that send something and read nothing; some of them may be refused or closed."""
    for _number in range(count):
        client = opened.enter_context(connect(daemon, address))
        client.setblocking(False)
        with contextlib.suppress(OSError):  # closed meanwhile, or no room in the daemon's buffers
            client.sendall(sent)


def status_kib(daemon: Daemon, name: str) -> int:
    lines = Path(f"/proc/{daemon.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def open_files(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("daemon", "kind"),
    [*((1024, kind) for kind in FLOODS), (8192, "half-sent bodies"), (8192, "unread answers")],
    indirect=["daemon"],
)
def test_one_client_keeps_nobody_out(daemon: Daemon, kind: str) -> None:
    files, memory, lines = open_files(daemon), status_kib(daemon, "VmRSS"), len(daemon.log)
    with ExitStack() as opened:
        for _part in range(4):
            flood(opened, daemon, FLOODER, FLOOD // 4, FLOODS[kind])
            ask_from(NEIGHBOUR, daemon)
        assert scrape(daemon).of("companion_http_connections") <= PER_CLIENT + 2
        assert open_files(daemon) <= files + PER_CLIENT + OWN_FILES
        assert status_kib(daemon, "VmRSS") < memory + 64 * MIB
        assert sum(map(len, daemon.log[lines:])) < 1_000_000
        assert not [line for line in daemon.log[lines:] if '"error"' in line]
    ask_until(lambda: open_files(daemon), lambda count: count <= files + OWN_FILES)


@pytest.mark.parametrize(
    ("daemon", "kind"),
    [(1024, "idle"), (8192, "half-sent bodies"), (8192, "unread answers")],
    indirect=["daemon"],
)
def test_a_crowd_takes_no_more_than_there_is(daemon: Daemon, kind: str) -> None:
    files = open_files(daemon)
    most = min(1000, resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)[0] * 4 // 5)
    with ExitStack() as opened:
        for number in range(CROWD):
            flood(opened, daemon, f"127.0.3.{number + 1}", PER_CLIENT, FLOODS[kind])
        assert open_files(daemon) <= files + most + OWN_FILES
        assert status_kib(daemon, "VmRSS") < UNITS_MEMORY
        ask_from(NEIGHBOUR, daemon)
    ask_until(lambda: open_files(daemon), lambda count: count <= files + OWN_FILES)
    ask_from(NEIGHBOUR, daemon)


@pytest.mark.parametrize("daemon", [8192], indirect=True)
def test_who_reads_nothing_is_disconnected(daemon: Daemon) -> None:
    before = scrape(daemon).of("companion_http_connections_cut_total", reason="unread")
    with ExitStack() as opened:
        flood(opened, daemon, FLOODER, PER_CLIENT, UNREAD)
        ask_until(
            lambda: scrape(daemon).of("companion_http_connections_cut_total", reason="unread"),
            lambda count: count == before + PER_CLIENT,
        )
        ask_from(FLOODER, daemon)


@pytest.mark.parametrize("daemon", [8192], indirect=True)
def test_without_descriptors_it_waits_and_says_so_once(daemon: Daemon) -> None:
    _soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    lines = len(daemon.log)
    with ExitStack() as opened:
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, hard))
        opened.callback(resource.prlimit, daemon.pid, resource.RLIMIT_NOFILE, (hard, hard))
        waiting = [opened.enter_context(connect(daemon, NEIGHBOUR)) for _number in range(8)]
        assert daemon.wait_for_log("no connection can be accepted (Too many open files)")
        for client in waiting:
            client.sendall(b"GET /api/config HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (hard, hard))
        for client in waiting:
            assert client.recv(12) == b"HTTP/1.1 200"
    failures = [line for line in daemon.log[lines:] if "no connection can be accepted" in line]
    assert len(failures) == 1
