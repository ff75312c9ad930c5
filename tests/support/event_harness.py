"""Event streams without HTTP: the streams, the audit log behind them, and their listeners."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regsvc.core.addresses import VerifiedSession
from regsvc.core.rights import EVERYTHING
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker
from regsvc.database.models import AuditEntry
from regsvc.runtime.event_streams import EventStream, EventStreams
from tests.support.manual_clock import ManualClock

SOON = timedelta(milliseconds=20)
NEVER = timedelta(hours=1)
TIMEOUT = 10.0  # seconds
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def session_of(name: str = "Olivia", user_id: int = 1) -> VerifiedSession:
    return VerifiedSession(f"session-of-{name}", user_id, name, "admin", LATER, None, LATER, 0, EVERYTHING)


@dataclass
class EventHarness:
    """The streams and what they depend on; `banned` are the names whose sessions have ended."""

    streams: EventStreams
    worker: Worker
    audit: Audit
    banned: set[str]

    async def record_change(
        self, action: str = "user.approved", target: str = "Alice", *, is_announced: bool = True
    ) -> None:
        """Record a change; `is_announced`: wake the streams as handlers do, else act like another process."""
        await self.worker.run(self.audit.record, action, Actor("Olivia"), target)
        if is_announced:
            self.streams.wake()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Listener"]:
        """Open a stream for Olivia, from now on."""
        async with self.streams.listen(session_of(), None) as stream:
            yield await start_listening(self, stream)


def open_streams(worker: Worker, audit: Audit, **options: Any) -> EventHarness:
    """Open streams that poll often, and neither check sessions nor send heartbeats unless `options` say so."""
    banned: set[str] = set()
    patient = {"heartbeat_interval": NEVER, "poll_interval": SOON, "session_check_interval": NEVER}
    streams = EventStreams(worker, lambda session: session.username not in banned, **{**patient, **options})
    return EventHarness(streams, worker, audit, banned)


class Listener:
    """A client with an open stream, who reads it chunk by chunk."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    async def expect_events(self, count: int) -> list[tuple[str, Any]]:
        """Return the next events as pairs of name and username; AssertionError if there are others."""
        heard: list[tuple[str, Any]] = []
        while len(heard) < count:
            heard += events_in(await self.chunk())
        assert len(heard) == count, heard
        return heard

    async def chunk(self) -> bytes:
        return await asyncio.wait_for(anext(self._chunks), TIMEOUT)

    async def expect_end(self) -> None:
        """Expect the end of the stream, with nothing before it."""
        with pytest.raises(StopAsyncIteration):
            await self.chunk()


def events_in(chunk: bytes) -> list[tuple[str, Any]]:
    """Return pairs of event name and username."""
    parts = [dict(line.split(": ", 1) for line in part.split("\n")) for part in chunk.decode().split("\n\n") if part]
    return [(part["event"], json.loads(part["data"]).get("username")) for part in parts if "event" in part]


async def start_listening(event_harness: EventHarness, stream: EventStream) -> Listener:
    listener = Listener(event_harness.streams.chunks(stream))
    assert await listener.chunk() == b"retry: 3000\n\n"
    return listener


def add_many(count: int, clock: ManualClock) -> None:
    """Insert so many approvals at once."""
    entry = {"action": "user.approved", "operator": "Olivia", "target": "Alice", "created_at": clock()}
    for start in range(0, count, 100):
        AuditEntry.insert_many([entry] * min(100, count - start)).execute()
