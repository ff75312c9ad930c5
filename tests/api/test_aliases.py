"""`/api/discord/…` and `/api/captcha`: second names of routes, for older front ends."""

from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack


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


def test_the_owner_sees_the_account_and_unlinks_it(make_stack: MakeStack, provider: OAuthServer) -> None:
    old = make_chat_stack(make_stack, provider)
    stack, alice = old.stack, old.browser()
    alice.name = "discord"
    person = stack.pending("alice")
    token = stack.user_token(person)
    alice.link(person.name, token)
    payload = stack.get("/api/discord/status", {"username": person.name}, token=token).json
    assert (payload["linked"], payload["user"]["username"]) == (True, "alice")
    assert stack.get("/api/discord/status", {"username": person.name}).json == {"success": True, "linked": True}
    body = {"username": person.name, "language": "en"}
    assert_refused(stack.post("/api/discord/unlink", body), 401, "proof_required")
    assert stack.post("/api/discord/unlink", body, token=token).status == 200
    assert old.links(alice) == []


def test_they_refuse_where_no_platform_is_set(stack: Stack) -> None:
    assert_refused(stack.get("/api/discord/auth"), 409, "not_enabled")
    assert_refused(stack.post("/api/discord/unlink", {"username": "Alice"}), 409, "not_enabled")
    assert stack.get("/api/discord/status", {"username": "Alice"}).json == {"success": True, "linked": False}
    assert_refused(stack.get("/api/discord/status"), 422, "invalid_field", field="username")


def test_a_captcha_has_a_second_name(stack: Stack) -> None:
    replies = [stack.get(path).json for path in ("/api/captcha", "/api/captcha/generate")]
    assert replies[0].keys() == replies[1].keys()
    assert replies[0]["image"].startswith("data:image/png;base64,")
    assert replies[0]["token"] != replies[1]["token"]
