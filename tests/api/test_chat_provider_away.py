"""A chat platform that answers nonsense, or not at all: the reply says so, the state is used up, no link remains."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.daemon import Reply
from tests.support.peers.oauth_server import Fault, OAuthServer
from tests.support.peers.provider_faults import ANYWHERE, PROFILES, SILENCES, TOKENS
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack
from tests.support.together import at_once

PATHS = ("/token", "/users/@me")
FAULTS = ("internal error", "garbage", "nothing")
"""One of each kind; all of them are in tests/registration/test_chat_provider.py."""


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def hasty(request: pytest.FixtureRequest, make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    """A chat stack whose daemon waits for the platform for a moment only."""
    return make_chat_stack(make_stack, provider, request.param, chat={"timeout": "2 s"})


def assert_nothing_stays(hasty: ChatStack, path: str, fault: Fault, *, with_unclaimed: bool = True) -> None:
    """The first attempt fails and uses up the state; the next one works, for an unclaimed link and for Alice's."""
    stack = hasty.stack
    token = stack.user_token(stack.pending("alice"))
    for begun_by in (None, token) if with_unclaimed else (token,):
        alice = hasty.browser()
        callback = alice.consent(alice.begin(token=begun_by).auth_url)
        with hasty.provider.fault(path, fault):
            assert_refused(alice.open_callback(callback), 503, "provider_away")
        assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")
        assert hasty.links(alice) == []
        assert hasty.count_requests() == 0
        alice.link(token=begun_by)
        assert len(hasty.links(alice)) == 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_answer_leaves_nothing(hasty: ChatStack, path: str, name: str) -> None:
    assert_nothing_stays(hasty, path, ANYWHERE[name])


def test_silence_leaves_nothing(hasty: ChatStack) -> None:
    assert_nothing_stays(hasty, "/token", SILENCES["never a byte"](hasty.provider), with_unclaimed=False)


def test_answers_that_only_look_like_some_leave_nothing(hasty: ChatStack) -> None:
    assert_nothing_stays(hasty, "/token", TOKENS["a token with a line break"])
    assert_nothing_stays(hasty, "/users/@me", PROFILES["an id with a line break"])


def test_a_platform_that_hangs_holds_nobody_else_up(hasty: ChatStack) -> None:
    waiting = [hasty.browser() for _person in range(8)]
    callbacks = [browser.consent(browser.begin().auth_url) for browser in waiting]
    silence = SILENCES["never a byte"](hasty.provider)

    answered: list[int] = []

    def noted(call: Callable[[], Reply]) -> Reply:
        reply = call()
        answered.append(reply.status)
        return reply

    calls: list[Callable[[], Reply]] = [
        *(partial(browser.open_callback, url) for browser, url in zip(waiting, callbacks, strict=True)),
        partial(hasty.stack.get, "/api/config"),
    ]
    with hasty.provider.fault("/token", silence):
        replies = at_once([partial(noted, call) for call in calls])
    assert [reply.status for reply in replies] == [503] * len(waiting) + [200]
    assert answered[0] == 200, "it was answered before those who wait"
