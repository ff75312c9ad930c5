"""A client of a daemon's event stream, over real HTTP."""

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from regsvc.runtime.event_streams import SYNC_FINISHED
from tests.support.daemon import HOST, Daemon

TIMEOUT = 15.0  # seconds


@dataclass(frozen=True)
class ReceivedEvent:
    """One event. `id` is None if it came without one."""

    name: str
    data: dict[str, Any]
    id: int | None


class EventListener:
    """A context manager: an open event stream, read on a thread as it arrives."""

    def __init__(
        self,
        daemon: Daemon,
        token: str | None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        connection: http.client.HTTPConnection | None = None,
        path: str = "/events",
    ) -> None:
        """Open the stream, over `connection` if it is given; AssertionError unless the status is 200.

        `token` None: `headers` say who listens.
        """
        self._connection = connection or http.client.HTTPConnection(HOST, daemon.port, timeout=60)
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connection.request(method, path, headers={**authorization, **(headers or {})})
        self._socket = self._connection.sock
        self._response = self._connection.getresponse()
        self.headers = self._response.headers
        self.received: list[ReceivedEvent] = []
        self.is_over = False
        self._news = threading.Condition()
        assert self._response.status == 200, self._response.read()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self.is_over:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread before the connection is closed
        self._thread.join(TIMEOUT)
        self._connection.close()

    def expect_events(self, *names: str) -> list[ReceivedEvent]:
        """Wait for exactly these events, in this order, and return them. AssertionError after a while.

        The end of a sync run is passed over unless it is among them: runs also begin by themselves, the first one with
        the daemon.
        """

        def heard() -> list[ReceivedEvent]:
            return [event for event in self.received if event.name != SYNC_FINISHED or SYNC_FINISHED in names]

        with self._news:
            self._news.wait_for(lambda: len(heard()) >= len(names) or self.is_over, TIMEOUT)
            found, self.received = heard(), []
            assert [event.name for event in found] == list(names), found
            return found

    def wait_for(self, **facts: object) -> ReceivedEvent:
        """Wait for an event whose data has these values, and return it; those received until then are forgotten."""

        def awaited() -> list[ReceivedEvent]:
            return [event for event in self.received if facts.items() <= event.data.items()]

        with self._news:
            self._news.wait_for(lambda: bool(awaited()) or self.is_over, TIMEOUT)
            assert awaited(), self.received
            found, self.received = awaited()[0], []
            return found

    def wait_for_end(self) -> None:
        """Wait until the server ends the stream properly; AssertionError if it does not."""
        with self._news:
            assert self._news.wait_for(lambda: self.is_over, TIMEOUT), f"it goes on: {self.received}"

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self._response:
                text = line.decode().rstrip("\n")
                if text:
                    name, _colon, value = text.partition(": ")
                    fields[name] = value
                else:
                    self._take(fields)
                    fields = {}
        except (OSError, http.client.HTTPException):
            """The client or the daemon has closed the connection."""
        with self._news:
            self.is_over = True
            self._news.notify_all()

    def _take(self, fields: Mapping[str, str]) -> None:
        with self._news:
            if "event" in fields:
                number = int(fields["id"]) if "id" in fields else None
                self.received.append(ReceivedEvent(fields["event"], json.loads(fields["data"]), number))
            self._news.notify_all()
