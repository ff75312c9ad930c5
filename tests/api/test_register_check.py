"""POST /api/register/check: what is wrong with a name or password is told before more is asked."""

from dataclasses import replace
from typing import Any

import pytest

from tests.api.test_register import REFUSED
from tests.api.test_register_again import token_in_rejection
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import count_rows
from tests.support.questions import proof_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("mariadb")

PATH = "/api/register/check"


def ask(stack: Stack, person: Person, **fields: object) -> Reply:
    body = {"username": person.name, "email": person.email, "password": person.password}
    return stack.post(PATH, body | fields)


def test_it_refuses_what_the_registration_refuses(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    proof = proof_for(stack, alice)

    def check(case: tuple[dict[str, Any], str, str, dict[str, Any]]) -> None:
        fields, code, field, facts = case
        payload = assert_refused(ask(stack, alice, **{"proof": proof, **fields}), 422, code, field=field)
        assert facts.items() <= payload.items()

    assert_each([case for case in REFUSED if "questionnaire" not in case[0]], check)


def test_alice_finds_a_free_name_and_has_used_up_nothing(stack: Stack) -> None:
    bob, rick, mallory = stack.pending("bob"), stack.pending("rick"), stack.newcomer("mallory")
    stack.decides("reject", rick)
    stack.authme.register(mallory.name, mallory.password)  # whom only the game knows
    alice = stack.newcomer("alice")
    proof = proof_for(stack, alice)
    rows = count_rows(stack)
    for taken in (bob, mallory):
        refused = ask(stack, replace(alice, name=taken.name), proof=proof)
        assert_refused(refused, 409, "username_taken", field="username")
    held = ask(stack, replace(alice, name=rick.name.upper()), proof=proof)
    until = assert_refused(held, 409, "reapply_later", field="username")["reapplyAt"]
    assert until == stack.user(rick)["reviewedAt"] + 24 * 60 * 60 * 1000
    for _time in range(3):
        reply = ask(stack, alice, proof=proof)
        assert (reply.status, reply.json) == (200, {"success": True, "username": alice.name})
    assert count_rows(stack) == rows
    assert stack.register(alice, code=None, proof=proof).status == 201


def test_nobody_is_told_anything_without_a_proof_of_the_address(stack: Stack) -> None:
    """Neither whose a name or an address is, nor which names are reserved."""
    alice, bob, mallory = stack.newcomer("alice"), stack.approved("bob"), stack.newcomer("mallory")
    stack.olivia()
    proof = proof_for(stack, mallory)
    for name in (alice.name, bob.name, "Olivia", "sql"):
        asked = replace(alice, name=name)
        assert_refused(ask(stack, asked), 422, "invalid_field", field="proof")
        for person in (asked, replace(asked, email=bob.email)):
            for wrong in (proof, f"{proof}0", "é"):
                assert_refused(ask(stack, person, proof=wrong), 422, "invalid_code", field="proof")
            assert_refused(ask(stack, person, applicationToken="1.x"), 422, "invalid_code", field="applicationToken")


def test_rick_who_applies_again_is_told_from_when(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"reapply_holds": "address"}})
    rick, alice = stack.pending("rick"), stack.newcomer("alice")
    stack.decides("reject", rick)
    token = token_in_rejection(stack, rick)
    assert_refused(ask(stack, rick, applicationToken=token), 409, "reapply_later", field="username")
    other_name = replace(rick, name=alice.name)
    assert_refused(ask(stack, other_name, applicationToken=token), 409, "reapply_later", field="email")
    assert_refused(ask(stack, other_name, proof=proof_for(stack, rick)), 409, "reapply_later", field="email")
    assert_refused(ask(stack, alice, applicationToken=token), 422, "invalid_code", field="applicationToken")
