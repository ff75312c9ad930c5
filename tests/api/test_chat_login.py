"""POST /api/login with a link token: an account that was linked before logging in becomes the user's."""

from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatStack
from tests.support.daemon import Reply
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import Person, Stack


def log_in(stack: Stack, person: Person, path: str = "/api/login", **fields: str) -> Reply:
    return stack.post(path, {"username": person.name, "password": person.password, **fields})


def id_of(browser: Browser) -> str:
    assert browser.person is not None
    return browser.person.id


def test_the_link_becomes_the_users(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.approved("alice")
    reply = log_in(stack, person, linkToken=alice.link(person.name))
    assert reply.status == 200
    assert reply.json["chat"]["linked"] is True
    assert reply.json["chat"]["user"]["id"] == id_of(alice)
    assert stack.user(person)["chat"]["id"] == id_of(alice)
    [linked] = stack.audits(person, "chat.linked")
    assert linked["operator"] == person.name


def test_the_header_counts_too_and_admins_may(chat_stack: ChatStack) -> None:
    stack, olivia = chat_stack.stack, chat_stack.browser()
    body = {"username": "Olivia", "password": "olivias-secret"}
    reply = stack.post("/api/admin/login", body, headers={"X-Link-Token": olivia.link()})
    assert reply.json["chat"]["user"]["id"] == id_of(olivia)


def test_who_shows_nothing_is_told_nothing(chat_stack: ChatStack) -> None:
    stack = chat_stack.stack
    assert "chat" not in log_in(stack, stack.pending("alice")).json


def test_no_cookie_claims_anything(chat_stack: ChatStack) -> None:
    """A shared browser may hold another person's link."""
    stack, shared = chat_stack.stack, chat_stack.browser()
    shared.link()
    person = stack.pending("bob")
    reply = shared.post("/api/login", {"username": person.name, "password": person.password})
    assert "chat" not in reply.json
    assert stack.user(person)["chat"] is None


def test_a_link_that_is_dead_does_not_undo_the_login_but_is_told(chat_stack: ChatStack) -> None:
    stack, person = chat_stack.stack, chat_stack.stack.pending("alice")
    token = chat_stack.browser().link()
    chat_stack.age_links(minutes=61)
    reply = log_in(stack, person, linkToken=token, language="zh")
    assert reply.status == 200
    assert reply.json["token"]
    message = TRANSLATIONS.text("refusal.invalid_link_token", "zh")
    assert reply.json["chat"] == {"linked": False, "code": "invalid_link_token", "message": message}


def test_an_account_that_is_anothers_is_told(chat_stack: ChatStack) -> None:
    stack, account = chat_stack.stack, chat_stack.person()
    late = chat_stack.browser(account).link()
    stack.pending("alice", linkToken=chat_stack.browser(account).link())
    bob = stack.pending("bob")
    reply = log_in(stack, bob, linkToken=late)
    assert (reply.status, reply.json["chat"]["code"]) == (200, "chat_account_taken")
    assert stack.user(bob)["chat"] is None


def test_a_wrong_password_claims_nothing(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.approved("alice")
    token = alice.link()
    refused = stack.post("/api/login", {"username": person.name, "password": "wrong", "linkToken": token})
    assert_refused(refused, 401, "bad_credentials")
    stack.decides("ban", person)
    assert_refused(log_in(stack, person, linkToken=token), 403, "banned")
    assert [link["user_id"] for link in chat_stack.links(alice)] == [None]


def test_where_no_platform_is_set_the_token_is_told_to_be_useless(stack: Stack) -> None:
    reply = log_in(stack, stack.pending("alice"), linkToken="A" * 43)
    assert (reply.status, reply.json["chat"]["code"]) == (200, "not_enabled")
