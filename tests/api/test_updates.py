"""GET /api/version: the installed versions and newer ones. No request waits for an update feed."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from regsvc import __version__
from regsvc.config.sections import Config
from regsvc.runtime.updates import TIMEOUT
from tests.support.authme.plugin_jars import AUTHME, write_jar
from tests.support.live_api import LiveApi, make_features
from tests.support.peers.release_feed import FeedReply, ReleaseFeed, release
from tests.support.stack import MakeStack, Stack
from tests.support.watching import ask_until

PAGE = "http://127.0.0.1/companion/releases/99.0.0"


def config_of(plugin: ReleaseFeed, own: ReleaseFeed) -> dict[str, dict[str, Any]]:
    return {"updates": {"enabled": True, "every": "1 s", "plugin_url": plugin.address, "own_url": own.address}}


@pytest.fixture(scope="module")
def feeds() -> Iterator[tuple[ReleaseFeed, ReleaseFeed]]:
    with ReleaseFeed(release("6.0.1")) as plugin, ReleaseFeed(release("v99.0.0", PAGE)) as own:
        yield plugin, own


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, feeds: tuple[ReleaseFeed, ReleaseFeed]) -> Stack:
    return make_stack(config=config_of(*feeds))


def version(stack: Stack) -> dict[str, Any]:
    reply = stack.get("/api/version")
    assert reply.status == 200
    payload: dict[str, Any] = reply.json
    return payload


def test_it_tells_our_version() -> None:
    with LiveApi(make_features(Config())) as api:
        reply = api.request("GET", "/api/version")
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "currentVersion": __version__,
        "latestVersion": None,
        "updateAvailable": False,
        "releasesUrl": None,
        "checkedAt": None,
        "plugin": {"name": "AuthMe", "currentVersion": None, "latestVersion": None, "updateAvailable": False},
    }


def test_it_tells_of_newer_ones(stack: Stack, feeds: tuple[ReleaseFeed, ReleaseFeed]) -> None:
    """Found out at the start, in the background; the jar is read here and now."""
    began = datetime.now(UTC).timestamp() * 1000
    write_jar(stack.game.directory / "plugins", "AuthMe-5.6.0.jar", AUTHME)
    stack.restart_with({})
    payload = ask_until(lambda: version(stack), lambda payload: payload["checkedAt"] is not None)
    assert payload["latestVersion"] == "99.0.0"
    assert payload["updateAvailable"] is True
    assert payload["releasesUrl"] == PAGE
    assert began <= payload["checkedAt"] <= datetime.now(UTC).timestamp() * 1000
    assert payload["plugin"] == {
        "name": "AuthMe",
        "currentVersion": "5.6.0-beta2",
        "latestVersion": "6.0.1",
        "updateAvailable": True,
    }


def test_however_many_ask_the_feed_is_asked_once(stack: Stack, feeds: tuple[ReleaseFeed, ReleaseFeed]) -> None:
    ask_until(lambda: version(stack), lambda payload: payload["checkedAt"] is not None)
    before = [len(feed.requests) for feed in feeds]
    for _request in range(50):
        version(stack)
    assert [len(feed.requests) for feed in feeds] == before


@pytest.mark.parametrize("answer", [FeedReply(is_silent=True), FeedReply(500)])
def test_a_bad_feed_keeps_nobody_waiting_and_is_not_told_of(make_stack: MakeStack, answer: FeedReply) -> None:
    with ReleaseFeed(answer) as plugin, ReleaseFeed(answer) as own:
        stack = make_stack(config=config_of(plugin, own))
        plugin.wait_for_requests(1)
        began = time.monotonic()
        payload = version(stack)
        assert time.monotonic() - began < TIMEOUT.total_seconds()
        assert (payload["checkedAt"], payload["updateAvailable"], payload["plugin"]["latestVersion"]) == (
            None,
            False,
            None,
        )
        assert not [line for line in stack.daemon.log if "WARNING" in line or "ERROR" in line]
        stack.daemon.stop()


def test_it_can_be_switched_off(make_stack: MakeStack) -> None:
    with ReleaseFeed(release("6.0.1")) as plugin, ReleaseFeed(release("99.0.0")) as own:
        config = config_of(plugin, own)
        config["updates"]["enabled"] = False
        stack = make_stack(config=config)
        assert version(stack)["latestVersion"] is None
        stack.daemon.stop()
        assert plugin.requests == own.requests == []


def test_a_jar_that_cannot_be_read_is_no_version(stack: Stack) -> None:
    (stack.game.directory / "plugins" / "AuthMe-5.6.0.jar").write_bytes(b"PK\x03\x04 half a jar")
    stack.restart_with({})
    assert version(stack)["plugin"]["currentVersion"] is None
    assert version(stack)["plugin"]["updateAvailable"] is False
