"""GET /api/discord/auth: `/api/chat/auth` as older front ends call it."""

import pytest

from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

pytestmark = pytest.mark.one_database("sqlite")


def test_a_whole_registration_as_older_front_ends_do_it(make_stack: MakeStack, provider: OAuthServer) -> None:
    """They know the user's name and nothing of link tokens, and ask until `linked` and `user` are there."""
    config = {"http": {"legacy_status": True}}
    old: ChatStack = make_chat_stack(make_stack, provider, chat={"required": True}, config=config)
    stack, alice = old.stack, old.browser()
    alice.name = "discord"
    person = stack.newcomer("alice")
    body = {
        "username": person.name,
        "email": person.email,
        "code": stack.code_for(person.email),
        "language": "en",
    }
    payload = alice.post("/api/register", body).json
    assert (payload["success"], payload["discordRequired"]) == (False, True)
    begun = alice.begin(person.name)
    assert alice.status(person.name).json["linked"] is False
    assert alice.open_callback(alice.consent(begun.auth_url), accept="text/html").status == 303
    payload = alice.status(person.name).json
    assert payload["linked"] is True
    assert payload["user"]["username"] == "alice"
    payload = alice.post("/api/register", body).json
    assert payload["success"] is True, payload


def test_it_refuses_where_no_platform_is_set(stack: Stack) -> None:
    assert_refused(stack.get("/api/discord/auth"), 409, "not_enabled")
