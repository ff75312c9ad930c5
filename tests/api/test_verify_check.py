"""POST /api/verify/check: a right code becomes a proof that outlives a long questionnaire."""

from collections import Counter
from functools import partial

import pytest

from tests.support.our_tables import age_code, everything_stored
from tests.support.questions import proof_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack
from tests.support.together import at_once

PATH = "/api/verify/check"


def test_a_proof_takes_the_place_of_the_code(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    reply = stack.post(PATH, {"email": alice.email.upper(), "code": f" {stack.code_for(alice.email)} "})
    assert (reply.status, reply.json["expiresInSeconds"]) == (200, 3600)
    proof = reply.json["proof"]
    assert proof not in everything_stored(stack)
    age_code(stack, alice.email, minutes=59)
    body = {"username": alice.name, "email": alice.email, "password": alice.password, "proof": proof}
    assert stack.post("/api/register", body).status == 201
    bob = stack.newcomer("bob")
    again = stack.post("/api/register", body | {"username": bob.name})
    assert_refused(again, 422, "invalid_code", field="proof")


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({"email": None}, 422, "invalid_field", "email"),
        ({"code": None}, 422, "invalid_field", "code"),
        ({"purpose": "world_domination"}, 422, "invalid_field", "purpose"),
        ({"email": "nobody"}, 422, "invalid_email", "email"),
        ({"email": "alice@[127.0.0.1]"}, 422, "domain_not_allowed", "email"),
        ({"purpose": "unlink"}, 409, "not_enabled", None),
        ({"email": "never.asked@example.org"}, 422, "invalid_code", "code"),
    ],
)
def test_what_is_refused(stack: Stack, fields: dict[str, object], status: int, code: str, field: str | None) -> None:
    body = {"email": "alice@example.org", "code": "123456", **fields}
    reply = stack.post(PATH, {name: value for name, value in body.items() if value is not None})
    assert_refused(reply, status, code, field=field)


def test_a_refused_registration_burns_no_proof(stack: Stack) -> None:
    alice, bob = stack.newcomer("alice"), stack.pending("bob")
    body = {"username": alice.name, "email": alice.email, "proof": proof_for(stack, alice)}
    assert_refused(stack.post("/api/register", body | {"username": bob.name}), 409, "username_taken", field="username")
    assert stack.post("/api/register", body).status == 201


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_one_proof_makes_one_user_of_many(make_stack: MakeStack, kind: str) -> None:
    stack = make_stack(kind)
    alice = stack.newcomer("alice")
    body = {"email": alice.email, "proof": proof_for(stack, alice)}
    names = [stack.newcomer("rival").name for rival in range(8)]
    replies = at_once([partial(stack.post, "/api/register", body | {"username": name}) for name in names])
    statuses = Counter(reply.status for reply in replies)
    assert statuses[201] == 1, [reply.text for reply in replies]
    assert {reply.code for reply in replies if reply.status != 201} <= {"invalid_code", "email_taken"}


def test_no_host_without_codes_checks_one(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"methods": ["captcha"]}})
    reply = stack.post(PATH, {"email": "alice@example.org", "code": "123456"})
    assert_refused(reply, 503, "mail_unavailable")
