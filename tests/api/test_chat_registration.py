"""POST /api/register with an unclaimed chat account: claimed by the new user, and by no other, once."""

import pytest

from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.our_tables import tries_of
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def strict(request: pytest.FixtureRequest, make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    """A chat stack that requires a chat account to register."""
    return make_chat_stack(make_stack, provider, request.param, chat={"required": True})


def test_the_config_tells(strict: ChatStack, stack: Stack) -> None:
    payload = strict.stack.get("/api/config").json["config"]
    assert payload["chat"] == payload["discord"] == {"enabled": True, "required": True, "platform": "discord"}
    payload = stack.get("/api/config").json["config"]
    assert payload["chat"] == payload["discord"] == {"enabled": False, "required": False, "platform": None}


def test_the_token_brings_the_account(strict: ChatStack) -> None:
    stack, alice = strict.stack, strict.browser()
    person = stack.newcomer("alice")
    token = alice.link(person.name)
    assert stack.register(person, linkToken=token).status == 201
    assert alice.person is not None
    assert stack.user(person)["chat"] == {"id": alice.person.id, "username": "alice"}
    [linked] = stack.audits(person, "chat.linked")
    assert (linked["operator"], linked["ip"]) == (person.name, "127.0.0.1")
    [link] = strict.links(alice)
    assert link["claimed_account"] == f"discord:{alice.person.id}"


def test_of_several_the_last_one_that_came_back_counts(strict: ChatStack) -> None:
    stack, alice = strict.stack, strict.browser()
    first = alice.person
    alice.link()
    alice.person = strict.person("other")
    alice.link()
    alice.begin()  # and one that never comes back
    person = stack.newcomer("alice")
    body = {"username": person.name, "email": person.email, "code": stack.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201
    assert stack.user(person)["chat"]["username"] == "other"
    assert first is not None
    mallory = strict.browser(first)
    assert mallory.status(person.name).json == {"success": True, "linked": True}


# --- Required ---


def test_without_one_nobody_registers(strict: ChatStack) -> None:
    stack, person = strict.stack, strict.stack.newcomer("alice")
    payload = assert_refused(stack.register(person), 422, "chat_link_required", field="linkToken")
    assert payload["discordRequired"] is True
    assert tries_of(stack, person.email) == 0
    assert stack.status(person) is None


def test_a_token_that_is_none_is_none(strict: ChatStack) -> None:
    stack = strict.stack
    for token in ("", "x", "A" * 43, "A" * 5000, strict.browser().begin().link_token):
        reply = stack.register(stack.newcomer("alice"), code="000000", linkToken=token)
        assert_refused(reply, 422, "chat_link_required", field="linkToken")


def test_a_refused_registration_spends_no_link(strict: ChatStack) -> None:
    stack, token = strict.stack, strict.browser().link()
    person = stack.newcomer("alice")
    assert_refused(stack.register(person, linkToken=token, code="000000"), 422, "invalid_code", field="code")
    taken = stack.pending("bob", linkToken=strict.browser().link())
    reply = stack.register(person, linkToken=token, username=taken.name)
    assert_refused(reply, 409, "username_taken", field="username")
    assert stack.register(person, linkToken=token).status == 201


def test_mallory_registers_with_nothing_of_alices(strict: ChatStack) -> None:
    """Mallory knows Alice's name, and uses another browser."""
    stack, alice, mallory = strict.stack, strict.browser(), strict.browser()
    person = stack.newcomer("alice")
    alice.link(person.name)
    mallory.begin(person.name)
    body = {"username": person.name, "email": person.email, "code": stack.code_for(person.email)}
    assert_refused(mallory.post("/api/register", body), 422, "chat_link_required", field="linkToken")
    assert len(strict.links(alice)) == 1


# --- One account, one user ---


def test_an_account_that_was_claimed_meanwhile(strict: ChatStack) -> None:
    stack, account = strict.stack, strict.person()
    early, late = strict.browser(account).link(), strict.browser(account).link()
    stack.pending("alice", linkToken=early)
    bob = stack.newcomer("bob")
    assert_refused(stack.register(bob, linkToken=late), 409, "chat_account_taken")
    assert tries_of(stack, bob.email) == 0


# --- Welcome, not required ---


def test_where_it_is_not_required_it_is_taken_along(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.pending("alice", linkToken=alice.link())
    assert stack.user(person)["chat"]["username"] == "alice"
    assert stack.user(stack.pending("bob"))["chat"] is None


def test_one_that_was_shown_and_is_dead_is_told(chat_stack: ChatStack) -> None:
    """A dead link token is refused: otherwise the player would believe that the account is linked."""
    stack, person = chat_stack.stack, chat_stack.stack.newcomer("alice")
    reply = stack.register(person, linkToken="A" * 43)
    assert_refused(reply, 422, "invalid_link_token", field="linkToken")
    assert stack.register(person).status == 201


def test_a_cookie_that_is_dead_bothers_nobody(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    alice.link()
    chat_stack.age_links(minutes=61)
    person = stack.newcomer("alice")
    body = {"username": person.name, "email": person.email, "code": stack.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201


def test_where_no_platform_is_set_a_token_means_nothing(stack: Stack) -> None:
    assert stack.register(stack.newcomer("alice"), linkToken="A" * 43).status == 201
