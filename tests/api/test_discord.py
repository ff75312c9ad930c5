"""The routes below /api/discord: those below /api/chat as older front ends call them."""

import pytest

from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack

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


def test_an_application_that_was_registered_with_the_older_address(make_stack: MakeStack) -> None:
    with OAuthServer() as provider:
        address = "https://play.example.org/api/discord/callback"
        provider.platform.redirect_urls.add(address)
        old = make_chat_stack(make_stack, provider, chat={"redirect_url": address})
        alice = old.browser()
        alice.name = "discord"
        callback = alice.consent(alice.begin().auth_url)
        assert callback.startswith(address)
        assert alice.open_callback(callback).status == 200
        assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")


def test_both_names_answer_alike(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.pending("alice")
    token = stack.user_token(person)
    query = {"username": person.name, "language": "en"}
    for name, other in (("chat", "discord"), ("discord", "chat")):
        alice.name = name
        alice.link(person.name, token)
        for shown in (None, token):
            replies = [stack.get(f"/api/{one}/status", query, token=shown) for one in (name, other)]
            assert replies[0].json == replies[1].json
            assert (replies[0].json["linked"], "user" in replies[0].json) == (True, shown is not None)
        assert_refused(stack.get(f"/api/{name}/status"), 422, "invalid_field", field="username")
        assert_refused(stack.post(f"/api/{name}/unlink", query), 401, "proof_required")
        assert stack.post(f"/api/{name}/unlink", query, token=token).status == 200
        assert chat_stack.links(alice) == []
