"""Streams of applications: bounded in number, loaded together, and at an end with their applications."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regsvc.core.caller import Caller
from regsvc.core.errors import ApplicationNotFound, DatabaseUnavailable, TooManyStreams
from regsvc.registration.applications.status import ApplicationStatus
from regsvc.registration.applications.streams import (
    MAX_STREAMS,
    MAX_STREAMS_PER_APPLICATION,
    MAX_STREAMS_PER_CLIENT,
    ApplicationStreams,
)
from tests.support.event_harness import NEVER, SOON, TIMEOUT, play

WAITING = ApplicationStatus(
    username="Alice",
    email="alice@example.org",
    status="pending",
    received_at=datetime(2030, 1, 1, tzinfo=UTC),
    place=1,
    waiting=1,
    usual_seconds=None,
    reason=None,
    reviewed_at=None,
    reapply_at=None,
    ban_expires_at=None,
    has_password=True,
    can_correct_email=False,
    answers=None,
    can_edit_answers=False,
    game_address=None,
)
APPROVED = replace(WAITING, status="approved", place=None, waiting=0)


class StoredApplications:
    """Applications in memory, by token, and which tokens each load asked for."""

    def __init__(self) -> None:
        self.statuses: dict[str, ApplicationStatus] = {}
        self.loads: list[list[str]] = []
        self.is_loaded = asyncio.Event()
        self.is_away = False

    async def find(self, token: str) -> ApplicationStatus:
        if token not in self.statuses:
            raise ApplicationNotFound
        return self.statuses[token]

    async def find_all(self, tokens: Sequence[str]) -> dict[str, ApplicationStatus]:
        self.loads.append(list(tokens))
        self.is_loaded.set()
        if self.is_away:
            raise DatabaseUnavailable
        return {token: self.statuses[token] for token in tokens if token in self.statuses}


@pytest.fixture
def stored() -> StoredApplications:
    return StoredApplications()


def open_streams(stored: StoredApplications, **options: Any) -> ApplicationStreams:
    quick = {"poll_interval": SOON, "heartbeat_interval": NEVER, "shortest_pause": timedelta(0)}
    return ApplicationStreams(stored, **{**quick, **options})  # type: ignore[arg-type]


def client(number: int = 1) -> Caller:
    return Caller(f"10.0.{number // 256}.{number % 256}", f"10.0.{number // 256}.{number % 256}", "en", "request")


async def following(statuses: AsyncIterator[ApplicationStatus | None]) -> ApplicationStatus | None:
    return await asyncio.wait_for(anext(statuses), TIMEOUT)


def test_a_listener_gets_the_state_and_its_changes(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored)
        stored.statuses["a"] = WAITING
        async with streams.listen("a", client()) as stream:
            statuses = streams.statuses(stream)
            assert await following(statuses) == WAITING
            stored.statuses["a"] = APPROVED
            assert await following(statuses) == APPROVED
            del stored.statuses["a"]
            with pytest.raises(StopAsyncIteration):
                await following(statuses)

    play(story)


def test_a_change_here_is_loaded_at_once(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored, poll_interval=NEVER)
        stored.statuses["a"] = WAITING
        async with streams.listen("a", client()) as stream:
            statuses = streams.statuses(stream)
            await following(statuses)
            stored.statuses["a"] = APPROVED
            streams.wake()
            assert await following(statuses) == APPROVED

    play(story)


def test_all_applications_are_loaded_together_and_without_listeners_none(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored)
        stored.statuses |= {"a": WAITING, "b": WAITING}
        async with AsyncExitStack() as stack:
            for token in ("b", "a", "a"):
                stream = await stack.enter_async_context(streams.listen(token, client()))
            stored.statuses["a"] = APPROVED
            statuses = streams.statuses(stream)
            while await following(statuses) != APPROVED:
                """The first state may come before the change."""
            assert stored.loads[-1] == ["a", "b"]
        poller = streams._poller
        assert poller is not None
        await asyncio.wait_for(poller, TIMEOUT)

    play(story)


def test_an_outage_of_the_database_delays_what_changed(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored)
        stored.statuses["a"] = WAITING
        async with streams.listen("a", client()) as stream:
            statuses = streams.statuses(stream)
            await following(statuses)
            stored.is_away, stored.statuses["a"] = True, APPROVED
            for _load in range(2):
                stored.is_loaded.clear()
                await asyncio.wait_for(stored.is_loaded.wait(), TIMEOUT)
            stored.is_away = False
            assert await following(statuses) == APPROVED

    play(story)


def test_a_heartbeat_shows_that_the_stream_lives(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored, heartbeat_interval=SOON)
        stored.statuses["a"] = WAITING
        async with streams.listen("a", client()) as stream:
            statuses = streams.statuses(stream)
            assert [await following(statuses), await following(statuses)] == [WAITING, None]

    play(story)


def test_a_wrong_token_opens_no_stream(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored)
        with pytest.raises(ApplicationNotFound):
            async with streams.listen("a", client()):
                """Never entered."""

    play(story)


@pytest.mark.parametrize(
    ("limit", "tokens", "clients"),
    [(MAX_STREAMS, 10**6, 10**6), (MAX_STREAMS_PER_CLIENT, 10**6, 1), (MAX_STREAMS_PER_APPLICATION, 1, 10**6)],
)
def test_streams_are_limited(stored: StoredApplications, limit: int, tokens: int, clients: int) -> None:
    async def story() -> None:
        streams = open_streams(stored, poll_interval=NEVER)
        stored.statuses = {str(number % tokens): WAITING for number in range(limit + 1)}
        async with AsyncExitStack() as stack:
            for number in range(limit):
                listening = streams.listen(str(number % tokens), client(number % clients))
                await stack.enter_async_context(listening)
            with pytest.raises(TooManyStreams):
                await stack.enter_async_context(streams.listen(str(limit % tokens), client(limit % clients)))
        async with streams.listen("0", client()):  # there is room again
            streams.close()

    play(story)


def test_at_the_stop_all_streams_end_and_new_ones_at_once(stored: StoredApplications) -> None:
    async def story() -> None:
        streams = open_streams(stored)
        stored.statuses["a"] = WAITING
        async with streams.listen("a", client()) as stream:
            streams.close()
            assert [status async for status in streams.statuses(stream)] == []
        async with streams.listen("a", client()) as late:
            assert [status async for status in streams.statuses(late)] == []

    play(story)
