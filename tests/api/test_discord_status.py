"""GET /api/discord/status: `/api/chat/status` as older front ends call it."""

import pytest

from tests.support.chat_stack import make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

pytestmark = pytest.mark.one_database("sqlite")


def test_the_owner_sees_the_account(make_stack: MakeStack, provider: OAuthServer) -> None:
    old = make_chat_stack(make_stack, provider)
    stack, alice = old.stack, old.browser()
    alice.name = "discord"
    person = stack.pending("alice")
    token = stack.user_token(person)
    alice.link(person.name, token)
    payload = stack.get("/api/discord/status", {"username": person.name}, token=token).json
    assert (payload["linked"], payload["user"]["username"]) == (True, "alice")
    assert stack.get("/api/discord/status", {"username": person.name}).json == {"success": True, "linked": True}


def test_it_wants_a_name(stack: Stack) -> None:
    assert stack.get("/api/discord/status", {"username": "Alice"}).json == {"success": True, "linked": False}
    assert_refused(stack.get("/api/discord/status"), 422, "invalid_field", field="username")
