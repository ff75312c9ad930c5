"""POST /api/register by somebody who was rejected: the token of that application proves the address."""

import re
from dataclasses import replace

import pytest

from tests.support.daemon import Reply
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.together import at_once

pytestmark = pytest.mark.every_database


def token_in_rejection(stack: Stack, person: Person) -> str:
    letter = stack.smtp.wait_for(person.email, 1, counts=lambda mail: "/application#token=" in mail.text)
    found = re.search(r"/application#token=(\S+)", letter.text)
    assert found is not None
    return found[1]


def apply_again(stack: Stack, person: Person, token: str, **fields: object) -> Reply:
    body = {"username": person.name, "email": person.email, "password": person.password, "applicationToken": token}
    return stack.post("/api/register", body | fields)


def test_rick_applies_again_with_the_link_of_the_rejection(stack: Stack) -> None:
    """Forty times at once: one application, and its repetitions. The old token opens nothing any more."""
    rick, mallory = stack.pending("rick"), stack.newcomer("mallory")
    stack.decides("reject", rick, mayReapply=True)
    token = token_in_rejection(stack, rick)
    assert_refused(apply_again(stack, mallory, token), 422, "invalid_code", field="applicationToken")
    assert_refused(apply_again(stack, rick, token[:-1] + "!"), 422, "invalid_code", field="applicationToken")
    replies = at_once([lambda: apply_again(stack, rick, token)] * 40)
    made = [reply for reply in replies if reply.status == 201]
    assert made
    assert len({reply.json["applicationToken"] for reply in made}) == 1
    assert {reply.json["code"] for reply in replies if reply.status != 201} <= {"invalid_code", "username_taken"}
    assert stack.user(rick)["status"] == "pending"
    letters = [letter for letter in stack.smtp.letters_to(rick.email) if "received" in letter.text]
    assert len(letters) <= 2
    another = replace(rick, name=mallory.name)
    assert_refused(apply_again(stack, another, token), 422, "invalid_code", field="applicationToken")
    fresh = made[0].json["applicationToken"]  # of an application that waits: it proves nothing
    assert_refused(apply_again(stack, another, fresh), 422, "invalid_code", field="applicationToken")


@pytest.mark.parametrize("holds", ["name", "address"])
def test_who_was_rejected_waits_under_this_name_or_with_this_address(make_stack: MakeStack, holds: str) -> None:
    stack = make_stack(config={"registration": {"reapply_holds": holds}})
    rick, alice = stack.pending("rick"), stack.newcomer("alice")
    stack.decides("reject", rick)
    token = token_in_rejection(stack, rick)
    assert_refused(apply_again(stack, rick, token), 409, "reapply_later", field="username")
    another = replace(rick, name=alice.name)
    if holds == "name":
        assert apply_again(stack, another, token).status == 201
        return
    assert_refused(apply_again(stack, another, token), 409, "reapply_later", field="email")
    assert_refused(stack.register(another), 409, "reapply_later", field="email")
    tagged = replace(another, email=another.email.replace("@", "+again@"))  # which reaches the same mailbox
    assert_refused(stack.register(tagged), 409, "reapply_later", field="email")
    unproven = stack.post("/api/register", {"username": another.name, "email": another.email, "code": "000000"})
    assert_refused(unproven, 422, "invalid_code", field="code")  # which tells nobody else
    mallory = stack.newcomer("mallory")
    stack.authme.register(mallory.name, mallory.password, alice.email)  # typed in the game, which proves nothing
    stack.sync()
    stack.decides("reject", mallory)
    assert stack.register(alice).status == 201


def test_an_address_that_was_typed_in_the_game_is_not_proven(stack: Stack) -> None:
    """The token was read at /account by who typed it there, and mailed to the address of somebody else."""
    alice, mallory = stack.newcomer("alice"), stack.newcomer("mallory")
    stack.authme.register(mallory.name, mallory.password, alice.email)
    stack.sync()
    stack.decides("ask", mallory, question="Who are you?")
    status = stack.get("/api/user/status", {"username": mallory.name}, token=stack.user_token(mallory))
    token = status.json["data"]["applicationToken"]
    stack.decides("reject", mallory, mayReapply=True)
    another = replace(alice, name=stack.newcomer("mallory").name)
    assert_refused(apply_again(stack, another, token), 422, "invalid_code", field="applicationToken")
    assert stack.register(alice).status == 201
