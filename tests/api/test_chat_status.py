"""GET /api/chat/status: anyone may know that an account is linked; only the people concerned may know which."""

from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import NO_LIMIT, MakeStack, Person, Stack

PATH = "/api/chat/status"
LINKED, NOT_LINKED = {"success": True, "linked": True}, {"success": True, "linked": False}


def user_of(browser: Browser) -> dict[str, object]:
    """Return the chat status of the browser's user."""
    assert browser.person is not None
    return {
        "id": browser.person.id,
        "username": "alice",
        "discriminator": "0",
        "avatar": None,
        "globalName": None,
    }


def linked_person(chat_stack: ChatStack, browser: Browser) -> tuple[Person, str]:
    """A user with the browser's account, and the access token."""
    person = chat_stack.stack.pending("alice")
    token = chat_stack.stack.user_token(person)
    browser.link(person.name, token)
    return person, token


def test_the_owner_and_an_admin_see_the_account(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    person, token = linked_person(chat_stack, alice)
    for shown_to in (token, chat_stack.stack.olivia()):
        reply = chat_stack.stack.get(PATH, {"username": person.name.upper()}, token=shown_to)
        assert reply.json == {**LINKED, "user": user_of(alice)}


def test_others_learn_that_there_is_one(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person, _token = linked_person(chat_stack, alice)
    bob = stack.user_token(stack.pending("bob"))
    mallory = chat_stack.browser()
    mallory.link()
    for reply in (
        stack.get(PATH, {"username": person.name}),
        stack.get(PATH, {"username": person.name}, token=bob),
        mallory.status(person.name),
    ):
        assert reply.json == LINKED


def test_nothing_is_linked(chat_stack: ChatStack) -> None:
    stack = chat_stack.stack
    person = stack.pending("alice")
    token = stack.user_token(person)
    assert stack.get(PATH, {"username": person.name}, token=token).json == NOT_LINKED
    assert stack.get(PATH, {"username": "Nobody_Of_That_Name"}).json == NOT_LINKED
    assert stack.get(PATH, {"username": "x" * 5000}).json == NOT_LINKED


def test_before_registering_the_holder_of_the_token_sees_it(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    alice.begin()
    assert alice.status("Alice").json == NOT_LINKED
    token = alice.link("Alice")
    assert alice.status("Alice").json == {**LINKED, "user": user_of(alice)}
    shown = stack.get(PATH, {"username": "Alice"}, headers={"X-Link-Token": token})
    assert shown.json == {**LINKED, "user": user_of(alice)}
    assert stack.get(PATH, {"username": "Alice"}).json == NOT_LINKED


def test_after_registering_too(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    token = alice.link()
    person = stack.pending("alice", linkToken=token)
    assert alice.status(person.name).json == {**LINKED, "user": user_of(alice)}
    chat_stack.age_links(minutes=61)
    assert alice.status(person.name).json == LINKED, "a link token is good for an hour"


def test_junk_in_the_header_and_the_cookie_shows_nothing(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    token = alice.link()
    for junk in ("", token[:-1], f"{token}A", f"{token},{token}", "A" * 43, "%", "é" * 43):
        headers = {"X-Link-Token": junk.encode().decode("latin-1"), "Cookie": f"companion_link={junk}.."}
        headers["Cookie"] = headers["Cookie"].encode().decode("latin-1")
        if junk == f"{token},{token}":
            headers.pop("Cookie")
        assert stack.get(PATH, {"username": "Alice"}, headers=headers).json == NOT_LINKED, junk


def test_where_no_platform_is_set_nothing_is_linked(stack: Stack) -> None:
    assert stack.get(PATH, {"username": "Alice"}).json == NOT_LINKED
    assert_refused(stack.get("/api/chat/auth"), 409, "not_enabled")
    assert_refused(stack.get("/api/chat/callback", {"state": "a", "code": "b"}), 409, "not_enabled")
    assert_refused(stack.post("/api/chat/unlink", {"username": "Alice"}), 409, "not_enabled")
    body = {"email": "alice@example.org", "purpose": "unlink"}
    assert_refused(stack.post("/api/verify/send", body), 409, "not_enabled")


def test_it_refuses(chat_stack: ChatStack) -> None:
    stack = chat_stack.stack
    assert_refused(stack.get(PATH), 422, "invalid_field", field="username")
    assert_refused(stack.get(PATH, {"username": "Alice"}, token="garbage"), 401, "unauthorized")


def test_one_client_cannot_ask_without_end(make_stack: MakeStack, provider: OAuthServer) -> None:
    config = {"http": {"status_limit": ["2 per minute"]}}
    few = make_chat_stack(make_stack, provider, config=config).stack
    assert [few.get(PATH, {"username": "Alice"}).status for _time in range(2)] == [200, 200]
    assert_refused(few.get(PATH, {"username": "Alice"}), 429, "rate_limited")
    few.restart_with({"http": {"status_limit": NO_LIMIT, "legacy_status": True}})
    assert_refused_as_200(few.get(PATH), "invalid_field")
