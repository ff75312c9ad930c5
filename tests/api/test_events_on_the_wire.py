"""The event stream as bytes: keep-alive comments, and listeners that do not read."""

import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regsvc.config.host_sections import HttpSection
from regsvc.config.sections import Config
from regsvc.runtime.event_streams import EventStreams, newest_id, read_tail
from regsvc.sync.report import SyncReport
from tests.support.live_api import LiveApi, make_features
from tests.support.watching import ask_until

REQUEST = b"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer olivia\r\n\r\n"

HEARTBEAT = timedelta(milliseconds=20)


class EmptyLog:
    """A worker for an audit log without entries, which needs no database."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if function in (newest_id, read_tail):
            return 0 if function is newest_id else (0, [])
        return function(*arguments)


class Stage:
    """The API with streams of its own."""

    def __init__(self, http: HttpSection | None = None, **options: Any) -> None:
        worker: Any = EmptyLog()
        self.streams = EventStreams(worker, lambda session: True, **options)
        features = make_features(Config(http=http or HttpSection()))
        features[EventStreams] = self.streams
        self.api = LiveApi(features)

    @property
    def listeners(self) -> int:
        return len(self.streams._streams)

    def tell(self, count: int) -> None:
        """So many runs of the sync that changed nothing."""
        report = SyncReport(datetime(2031, 5, 4, tzinfo=UTC))

        def tell() -> None:
            for _run in range(count):
                self.streams.publish_run(report)

        self.api.call(tell)

    def listen(self, window: int | None = None) -> socket.socket:
        """`window`: how many bytes the client takes before it reads any."""
        client = socket.socket()
        if window is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        client.settimeout(10)
        client.connect(("127.0.0.1", self.api.port))
        client.sendall(REQUEST)
        ask_until(lambda: self.listeners, lambda count: count == 1)
        return client


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage(heartbeat_interval=HEARTBEAT)
    with made.api:
        yield made


def read_until(client: socket.socket, wanted: bytes, count: int = 1) -> bytes:
    received = b""
    while received.count(wanted) < count:
        piece = client.recv(65536)
        assert piece, received
        received += piece
    return received


def test_it_begins_at_once_and_gives_signs_of_life(stage: Stage) -> None:
    with stage.listen() as client:
        received = read_until(client, b": still here\n\n", 3)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/event-stream\r\n" in received
    assert b"retry: 3000\n\n" in received


def test_who_leaves_is_forgotten(stage: Stage) -> None:
    with stage.listen():
        pass
    ask_until(lambda: stage.listeners, lambda count: count == 0)


def fill(stage: Stage) -> None:
    """Publish so many events that the buffers of a listener that does not read are full."""
    before = -1
    [stream] = stage.streams._streams
    while stage.listeners and not (before == len(stream._queue) - 200 and before > 200):
        before = len(stream._queue)
        stage.tell(200)


def test_who_takes_nothing_is_cut_off() -> None:
    stage = Stage(HttpSection(write_timeout=timedelta(milliseconds=100)), heartbeat_interval=HEARTBEAT)
    with stage.api, stage.listen(window=2048):
        fill(stage)
        ask_until(lambda: stage.listeners, lambda count: count == 0)


def test_the_end_does_not_wait_for_who_takes_nothing(stage: Stage) -> None:
    with stage.listen(window=2048):
        fill(stage)
        stage.api.call(stage.streams.close)
        began = time.monotonic()
        ask_until(lambda: stage.listeners, lambda count: count == 0)
        assert time.monotonic() - began < 30
