"""Update checks: rare, distrustful, and never blocking a request."""

import asyncio
import json
import logging
import socket
import time
from datetime import timedelta

import pytest

from regsvc import __version__
from regsvc.core.http_response import NoResponse
from regsvc.runtime.updates import FIRST_RETRY_DELAY, MAX_ANSWER_BYTES, PublishedVersion, UpdateFeed, Updates, _read
from tests.support.manual_clock import ManualClock
from tests.support.peers.release_feed import FeedReply, ReleaseFeed, release
from tests.support.ports import free_port

EVERY = timedelta(hours=6)
PAGE = "http://127.0.0.1/AuthMeReloaded/releases/tag/6.0.1"


def fetch(feed: ReleaseFeed, timeout: timedelta = timedelta(seconds=5)) -> PublishedVersion:
    return asyncio.run(UpdateFeed(feed.address, timeout=timeout).fetch())


def refused(answer: FeedReply, timeout: timedelta = timedelta(seconds=5)) -> str:
    with ReleaseFeed(answer) as feed, pytest.raises(NoResponse) as refusal:
        fetch(feed, timeout)
    return str(refusal.value)


def test_the_newest_version_and_its_page_are_read() -> None:
    with ReleaseFeed(release("v6.0.1", PAGE)) as feed:
        assert fetch(feed) == PublishedVersion("6.0.1", PAGE)
    [asked] = feed.requests
    assert asked["user-agent"] == f"companion/{__version__}"
    assert "authorization" not in asked
    assert "gzip" not in asked.get("accept-encoding", "")


def test_the_second_time_it_need_not_repeat_itself() -> None:
    with ReleaseFeed(release("6.0.1")) as feed:
        asker = UpdateFeed(feed.address)
        first, second = (asyncio.run(asker.fetch()) for _time in range(2))
        assert first == second
        assert feed.requests[1]["if-none-match"] == '"6.0.1"'
        feed.answer = release("6.0.2")
        assert asyncio.run(asker.fetch()).version == "6.0.2"


@pytest.mark.parametrize(
    "page",
    [
        *("javascript:alert(1)", "/releases", 'https://127.0.0.1/"><script>', "https://127.0.0.1/" + "x" * 600),
        *("https://example.org/", "https://127.0.0.1@example.org/", "https://example.org#127.0.0.1", "https://[::1"),
    ],
)
def test_an_address_that_is_no_link_to_the_feeds_host_is_left_out(page: str) -> None:
    with ReleaseFeed(release("6.0.1", page)) as feed:
        assert fetch(feed) == PublishedVersion("6.0.1", None)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"tag_name": 6}', b'{"tag_name": "latest"}', b"[" * 100_000, b'"\xff"'],
)
def test_nonsense_is_no_version(body: bytes) -> None:
    assert refused(FeedReply(body=body)).startswith("the answer")


@pytest.mark.parametrize("status", [204, 403, 404, 429, 500, 503])
def test_another_status_is_no_answer(status: int) -> None:
    assert str(status) in refused(FeedReply(status=status))


def test_an_answer_that_never_ends_is_cut() -> None:
    told = json.dumps({"tag_name": "6.0.1", "body": "x" * MAX_ANSWER_BYTES}).encode()
    assert refused(FeedReply(body=told))
    assert refused(FeedReply(body=b"{", length=10**12))


def test_a_silent_feed_is_not_waited_for() -> None:
    began = time.monotonic()
    assert refused(FeedReply(is_silent=True), timedelta(milliseconds=100))
    assert time.monotonic() - began < 30


def test_nobody_listens() -> None:
    with pytest.raises(NoResponse):
        asyncio.run(UpdateFeed(f"http://127.0.0.1:{free_port()}/").fetch())


def test_the_api_of_a_service_links_to_its_pages() -> None:
    page = "https://github.com/AuthMe/AuthMeReloaded/releases/tag/6.0.1"
    body = release("6.0.1", page).body
    assert _read(body, "api.github.com").page == page
    assert _read(body, "api.example.org").page is None


def test_a_name_that_leads_to_this_machine_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a host that writes a private address itself means it."""
    with ReleaseFeed(release("6.0.1")) as feed:
        name = feed.address.replace("127.0.0.1", "feed.example.org")
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", feed.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: found)
        with pytest.raises(NoResponse, match="no public address"):
            asyncio.run(UpdateFeed(name).fetch())
        assert not feed.requests


@pytest.mark.parametrize(
    "target",
    [
        "https://localhost:1/internal/admin?x=1",
        "https://127.0.0.1:1/internal",
        "https://127.0.0.1@localhost/",
        "https://example.org/",
    ],
)
def test_it_is_led_to_no_other_server(target: str) -> None:
    assert refused(FeedReply(302, headers={"Location": target})) == "it redirects to another server"


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/", "/elsewhere", "file:///etc/passwd", "ftp://example.org/"])
def test_it_is_led_to_https_alone(target: str) -> None:
    """The feed here has no TLS, so even a redirect to itself is refused."""
    assert "not https" in refused(FeedReply(302, headers={"Location": target}))


# --- When ---


def updates_of(feed: ReleaseFeed, clock: ManualClock) -> Updates:
    return Updates({"plugin": UpdateFeed(feed.address)}, EVERY, clock)


def test_answers_are_good_for_hours(clock: ManualClock) -> None:
    with ReleaseFeed(release("6.0.1")) as feed:
        updates = updates_of(feed, clock)
        assert updates.checked_at is None
        for _tick in range(3):
            asyncio.run(updates.check_if_due())
        assert len(feed.requests) == 1
        assert updates.published["plugin"].version == "6.0.1"
        assert updates.checked_at == clock()

        clock.advance(hours=5, minutes=59)
        asyncio.run(updates.check_if_due())
        assert len(feed.requests) == 1
        clock.advance(minutes=1)
        asyncio.run(updates.check_if_due())
        assert len(feed.requests) == 2
        clock.advance(days=-730)
        asyncio.run(updates.check_if_due())
        assert len(feed.requests) == 3, "the clock was set back"


def test_a_failure_is_quiet_and_tried_again_ever_later(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    with ReleaseFeed(FeedReply(500)) as feed, caplog.at_level(logging.DEBUG, "regsvc"):
        updates = updates_of(feed, clock)
        asyncio.run(updates.check_if_due())
        for pause in (FIRST_RETRY_DELAY, FIRST_RETRY_DELAY * 2, FIRST_RETRY_DELAY * 4):
            before = len(feed.requests)
            clock.advance(seconds=pause.total_seconds() - 1)
            asyncio.run(updates.check_if_due())
            assert len(feed.requests) == before
            clock.advance(seconds=1)
            asyncio.run(updates.check_if_due())
            assert len(feed.requests) == before + 1
    assert {record.levelname for record in caplog.records if record.name.startswith("regsvc")} == {"DEBUG"}
    assert updates.checked_at is None


def test_the_pause_never_grows_past_the_period(clock: ManualClock) -> None:
    with ReleaseFeed(FeedReply(500)) as feed:
        updates = updates_of(feed, clock)
        for asked in range(1, 20):
            asyncio.run(updates.check_if_due())
            assert len(feed.requests) == asked
            clock.advance(hours=6)


def test_what_was_known_outlives_an_outage(clock: ManualClock) -> None:
    with ReleaseFeed(release("6.0.1")) as feed:
        updates = updates_of(feed, clock)
        asyncio.run(updates.check_if_due())
        checked_at = clock()
        feed.answer = FeedReply(503)
        clock.advance(hours=6)
        asyncio.run(updates.check_if_due())
        assert updates.published["plugin"].version == "6.0.1"
        assert updates.checked_at == checked_at


def test_one_feed_that_fails_does_not_keep_the_other_back(clock: ManualClock) -> None:
    with ReleaseFeed(FeedReply(500)) as broken, ReleaseFeed(release("0.9.0")) as own:
        feeds = {"plugin": UpdateFeed(broken.address), "companion": UpdateFeed(own.address)}
        updates = Updates(feeds, EVERY, clock)  # type: ignore[arg-type]
        assert set(asyncio.run(updates.check())) == {"plugin"}
    assert updates.published["companion"].version == "0.9.0"
    assert updates.checked_at == clock()
