"""POST /api/discord/unlink: `/api/chat/unlink` as older front ends call it."""

import pytest

from tests.support.chat_stack import make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

pytestmark = pytest.mark.one_database("sqlite")


def test_the_owners_token_and_the_name_are_enough(make_stack: MakeStack, provider: OAuthServer) -> None:
    old = make_chat_stack(make_stack, provider)
    stack, alice = old.stack, old.browser()
    person = stack.pending("alice")
    token = stack.user_token(person)
    alice.link(person.name, token)
    body = {"username": person.name, "language": "en"}
    assert_refused(stack.post("/api/discord/unlink", body), 401, "proof_required")
    assert stack.post("/api/discord/unlink", body, token=token).status == 200
    assert old.links(alice) == []


def test_it_refuses_where_no_platform_is_set(stack: Stack) -> None:
    assert_refused(stack.post("/api/discord/unlink", {"username": "Alice"}), 409, "not_enabled")
