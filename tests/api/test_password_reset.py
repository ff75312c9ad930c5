"""POST /api/password/reset: the mailed link sets a password, once."""

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import everything_kept
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import Person, Stack, find_link_token

pytestmark = pytest.mark.one_database("mariadb")

NEW = "a-new-secret-1"


def has_link(text: str) -> bool:
    return "/set-password#token=" in text


def link_for(stack: Stack, person: Person) -> str:
    """Ask for a link and read its token in the mail."""
    links = sum(has_link(letter.text) for letter in stack.smtp.letters_to(person.email))
    assert stack.post("/api/password/forgot", {"email": person.email}).status == 200
    letter = stack.smtp.wait_for(person.email, links + 1, counts=lambda letter: has_link(letter.text))
    return find_link_token(letter.text)


def reset(stack: Stack, token: str, new: str = NEW, **fields: object) -> Reply:
    return stack.post("/api/password/reset", {"token": token, "newPassword": new, **fields})


def test_alice_sets_a_new_password_here_and_in_the_game(stack: Stack) -> None:
    alice = stack.approved("alice")
    session, token = stack.user_token(alice), link_for(stack, alice)
    reply = reset(stack, token)
    message = TRANSLATIONS.text("message.password_set", "en")
    told = {"success": True, "message": message, "username": alice.name, "status": "approved", "warnings": []}
    assert (reply.status, reply.json) == (200, told)
    assert stack.authme.login(alice.name, NEW)
    assert not stack.authme.login(alice.name, alice.password)
    assert_refused(stack.post("/api/logout", {}, token=session), 401, "unauthorized")
    assert stack.login(alice, NEW).status == 200
    [entry] = stack.audits(alice, "user.password_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    for secret in (NEW, token.partition(".")[2]):
        assert secret not in everything_kept(stack, alice)


def test_who_read_the_mail_has_proven_the_address(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password, email=bob.email)
    stack.sync()
    by_address = {"username": bob.email, "password": NEW}
    assert reset(stack, link_for(stack, bob)).status == 200
    assert stack.post("/api/login", by_address).status == 200


def test_a_password_that_breaks_a_rule_does_not_spend_the_link(stack: Stack) -> None:
    alice = stack.pending("alice")
    token = link_for(stack, alice)
    for new, fault in (("abcd", "too_short"), ("pass word", "forbidden_characters"), (alice.name, "same_as_username")):
        reply = reset(stack, token, new, language="zh")
        payload = assert_refused(reply, 422, "invalid_password", field="newPassword", language="zh")
        assert payload["fault"] == fault
    assert reset(stack, token).status == 200
