"""Streams of applications: bounded in number, loaded together, and at an end with their applications."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from regsvc.auth.rate_limits import StatusRateLimits
from regsvc.config.sections import Config
from regsvc.core.addresses import Caller
from regsvc.core.errors import ApplicationNotFound, DatabaseUnavailable, TooManyStreams
from regsvc.registration.applications.status import (
    MAX_STREAMS,
    MAX_STREAMS_PER_APPLICATION,
    ApplicationReply,
    ApplicationStreams,
)
from tests.support.event_harness import NEVER, SOON, TIMEOUT
from tests.support.live_api import LiveApi, make_features

PATH = "/api/application/events"

WAITING = ApplicationReply(
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
    waiting_for="review",
    answer_by=None,
    questions=(),
    answers=None,
    can_edit_answers=False,
    game_address=None,
)
APPROVED = replace(WAITING, status="approved", place=None, waiting=0)


class StoredApplications:
    """Applications in memory, by token, and which tokens each load asked for."""

    def __init__(self) -> None:
        self.statuses: dict[str, ApplicationReply] = {}
        self.loads: list[list[str]] = []
        self.is_loaded = asyncio.Event()
        self.is_away = False

    async def find(self, token: str) -> ApplicationReply:
        if token not in self.statuses:
            raise ApplicationNotFound
        return self.statuses[token]

    async def find_all(self, tokens: Sequence[str]) -> dict[str, ApplicationReply]:
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


def subscriber(network: int, at_home: int = 0) -> Caller:
    """Return a client with one of the many /64 of an IPv6 network (/48)."""
    return Caller(f"2001:db8:{network}:{at_home}::1", f"2001:db8:{network}:{at_home}::/64", "en", "request")


async def following(statuses: AsyncIterator[ApplicationReply | None]) -> ApplicationReply | None:
    return await asyncio.wait_for(anext(statuses), TIMEOUT)


@contextmanager
def live_api(stored: StoredApplications) -> Iterator[LiveApi]:
    """Serve the routes of applications on a real socket; clients are those that `X-Forwarded-For` names."""
    streams = open_streams(stored)
    unlimited: Any = SimpleNamespace(hit=lambda caller: None)
    features = make_features(Config())
    features.update({ApplicationStreams: streams, StatusRateLimits: unlimited})
    with LiveApi(features) as api:
        yield api
        api.call(streams.close)


@contextmanager
def connected(api: LiveApi, token: str, address: str) -> Iterator[socket.socket]:
    """Open a stream, and wait until it is answered."""
    with api.connect() as connection:
        head = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nX-Application-Token: {token}\r\nX-Forwarded-For: {address}\r\n\r\n"
        connection.sendall(head.encode())
        read_until(connection, b"\r\n\r\n")
        yield connection


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """Return everything received up to `end`, byte by byte, so that nothing after it is lost."""
    received = b""
    while not received.endswith(end):
        byte = connection.recv(1)
        assert byte, received
        received += byte
    return received


async def test_a_listener_gets_the_state_and_its_changes(stored: StoredApplications) -> None:
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


async def test_a_change_here_is_loaded_at_once(stored: StoredApplications) -> None:
    streams = open_streams(stored, poll_interval=NEVER)
    stored.statuses["a"] = WAITING
    async with streams.listen("a", client()) as stream:
        statuses = streams.statuses(stream)
        await following(statuses)
        stored.statuses["a"] = APPROVED
        streams.wake()
        assert await following(statuses) == APPROVED


async def test_all_applications_are_loaded_together_and_without_listeners_none(stored: StoredApplications) -> None:
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


async def test_an_outage_of_the_database_delays_what_changed(stored: StoredApplications) -> None:
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


async def test_a_heartbeat_shows_that_the_stream_lives(stored: StoredApplications) -> None:
    streams = open_streams(stored, heartbeat_interval=SOON)
    stored.statuses["a"] = WAITING
    async with streams.listen("a", client()) as stream:
        statuses = streams.statuses(stream)
        assert [await following(statuses), await following(statuses)] == [WAITING, None]


async def test_a_wrong_token_opens_no_stream(stored: StoredApplications) -> None:
    streams = open_streams(stored)
    with pytest.raises(ApplicationNotFound):
        async with streams.listen("a", client()):
            """Never entered."""


async def test_an_application_has_few_streams(stored: StoredApplications) -> None:
    streams = open_streams(stored, poll_interval=NEVER)
    stored.statuses = {"a": WAITING, "b": WAITING}
    async with AsyncExitStack() as stack:
        for number in range(MAX_STREAMS_PER_APPLICATION):
            await stack.enter_async_context(streams.listen("a", client(number)))
        with pytest.raises(TooManyStreams):
            await stack.enter_async_context(streams.listen("a", client(MAX_STREAMS)))
        await stack.enter_async_context(streams.listen("b", client(0)))
    async with streams.listen("a", client()) as stream:  # there is room again
        assert not stream.is_closed


@pytest.mark.parametrize(
    ("holders", "newcomer", "ended"),
    [
        pytest.param([client(0)], client(1), 0, id="one client"),
        pytest.param([client(0)], client(0), None, id="the client with all of them"),
        pytest.param([client(number) for number in range(10)], client(10), 0, id="ten clients"),
        pytest.param([client(0), client(1), client(1)], client(2), 1, id="the client with more of them"),
        pytest.param([client(number) for number in range(MAX_STREAMS)], client(MAX_STREAMS), None, id="all alike"),
        pytest.param([client(1), *3 * [subscriber(7)]], subscriber(7, at_home=1), 1, id="a client of one network"),
        pytest.param([client(0), *(subscriber(7, number) for number in range(9))], client(1), 1, id="an IPv6 network"),
    ],
)
async def test_of_too_many_streams_the_largest_client_loses_its_oldest(
    stored: StoredApplications, holders: list[Caller], newcomer: Caller, ended: int | None
) -> None:
    streams = open_streams(stored, poll_interval=NEVER)
    stored.statuses = {str(number): WAITING for number in range(MAX_STREAMS + 1)}
    async with AsyncExitStack() as stack:
        opened = []
        for number in range(MAX_STREAMS):
            holder = holders[number % len(holders)]
            opened.append(await stack.enter_async_context(streams.listen(str(number), holder)))
        listening = streams.listen(str(MAX_STREAMS), newcomer)
        if ended is None:
            with pytest.raises(TooManyStreams):
                await stack.enter_async_context(listening)
        else:
            assert not (await stack.enter_async_context(listening)).is_closed
        assert [number for number, stream in enumerate(opened) if stream.is_closed] == (
            [] if ended is None else [ended]
        )


async def test_a_client_that_gave_way_does_not_drive_others_out(stored: StoredApplications) -> None:
    streams = open_streams(stored, poll_interval=NEVER)
    stored.statuses = {str(number): WAITING for number in range(MAX_STREAMS + 1)}
    async with AsyncExitStack() as stack:
        for number in range(MAX_STREAMS):
            await stack.enter_async_context(streams.listen(str(number), client(number % 2)))
        alice = await stack.enter_async_context(streams.listen(str(MAX_STREAMS), client(2)))
        with pytest.raises(TooManyStreams):
            await stack.enter_async_context(streams.listen("0", client(0)))
        assert not alice.is_closed


def test_ten_clients_with_all_streams_keep_alice_from_none(stored: StoredApplications) -> None:
    stored.statuses = {f"flood{number}": WAITING for number in range(MAX_STREAMS)} | {"alice": WAITING}
    with live_api(stored) as api, ExitStack() as opened:
        flood = [opened.enter_context(connected(api, f"flood{n}", f"10.0.0.{n % 10}")) for n in range(MAX_STREAMS)]
        page = opened.enter_context(connected(api, "alice", "10.0.1.1"))
        read_until(page, b'"status":"pending"')
        read_until(flood[0], b"\r\n0\r\n\r\n")  # the end of the response
        refused = opened.enter_context(connected(api, "flood0", "10.0.0.0"))
        read_until(refused, b'"too_many_streams"')
        stored.statuses["alice"] = APPROVED
        read_until(page, b'"status":"approved"')


async def test_at_the_stop_all_streams_end_and_new_ones_at_once(stored: StoredApplications) -> None:
    streams = open_streams(stored)
    stored.statuses["a"] = WAITING
    async with streams.listen("a", client()) as stream:
        streams.close()
        assert [status async for status in streams.statuses(stream)] == []
    async with streams.listen("a", client()) as late:
        assert [status async for status in streams.statuses(late)] == []
