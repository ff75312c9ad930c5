"""Undo at the desk: what an operator, or an API token, decided is planned and taken back."""

import time
from typing import Any

import pytest

from regsvc.cli.given_config import actor_name
from tests.api.test_team import give, with_role
from tests.api.test_team_credentials import make_token
from tests.support.command_line import companion
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack

# POST /api/admin/undo: by operators, about those who stand no higher.


def now() -> int:
    return round(time.time() * 1000)


def undo(stack: Stack, of: str, since: int, token: str | None = None, **more: Any) -> Any:
    reply = stack.post("/api/admin/undo", {"of": of, "since": since, **more}, token=token or stack.olivia())
    assert reply.status == 200, reply.json
    return reply.json


def decide(stack: Stack, transition: str, person: Person, token: str) -> None:
    reply = stack.post(f"/api/admin/user/{transition}", {"username": person.name}, token=token)
    assert reply.status == 200, reply.json


def test_olivia_sees_what_would_be_undone_and_undoes_it(stack: Stack, operators: Operators) -> None:
    mallory, since = operators.new("mallory"), now()
    token = stack.admin_token(mallory.name, mallory.password)
    alice, bob, carol = stack.pending("alice"), stack.approved("bob"), stack.pending("carol")
    decide(stack, "approve", alice, token)
    decide(stack, "ban", bob, token)
    decide(stack, "approve", carol, token)
    decide(stack, "ban", carol, stack.olivia())

    planned = undo(stack, mallory.name, since, plan=True)

    assert (planned["undone"], planned["kept"]) == (2, 1)
    assert planned["users"][0]["username"] == carol.name
    assert (planned["users"][0]["kept"], planned["users"][0]["keptBy"]) == ("touched", "Olivia")
    assert (stack.status(alice), stack.status(bob)) == ("approved", "banned"), "a plan changes nothing"
    done = undo(stack, mallory.name, since)
    assert {**done, "message": ""} == {**planned, "message": ""}
    assert (stack.status(alice), stack.status(bob), stack.status(carol)) == ("pending", "approved", "banned")
    assert stack.login(bob).status == 200
    again = undo(stack, mallory.name, since)
    assert (again["undone"], again["kept"]) == (0, 1)


def test_a_token_that_leaked_is_undone(stack: Stack) -> None:
    bot = make_token(stack, "leaky-bot", "users.read", "users.review")
    since, alice = now(), stack.pending("alice")
    decide(stack, "reject", alice, bot)
    assert stack.audits(alice, "user.rejected")[0]["operator"] == "leaky-bot (Olivia)"

    refused = stack.post("/api/admin/undo", {"of": "token:nobody-bot", "since": since}, token=stack.olivia())
    assert_refused(refused, 404, "actor_unknown", field="of")
    assert undo(stack, "token:leaky-bot", since)["undone"] == 1

    assert stack.status(alice) == "pending"
    by_bot = stack.post("/api/admin/undo", {"of": "Olivia", "since": since}, token=bot)
    assert assert_refused(by_bot, 403, "forbidden")["permission"] == "team.manage"


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"of": "Olivia", "since": 1}, 409, "undo_of_oneself", "of"),
        ({"of": "olivia ", "since": 1}, 409, "undo_of_oneself", "of"),
        ({"of": "Nobody_77", "since": 1}, 404, "actor_unknown", "of"),
        ({"of": " ", "since": 1}, 404, "actor_unknown", "of"),
        ({"of": "token:", "since": 1}, 404, "actor_unknown", "of"),
        ({"of": "", "since": 1}, 422, "invalid_field", "of"),
        ({"of": "sql", "since": 4_000_000_000_000}, 422, "since_in_future", "since"),
        ({"of": "sql", "since": 2000, "until": 2000}, 422, "until_before_since", "until"),
        ({"of": "sql", "since": 2000, "until": 1000}, 422, "until_before_since", "until"),
        ({"of": "sql", "since": "yesterday"}, 422, "invalid_field", "since"),
        ({"of": "sql", "since": 10**18}, 422, "invalid_field", "since"),
        ({"of": "sql"}, 422, "invalid_field", "since"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    stack: Stack, body: dict[str, Any], status: int, code: str, field: str
) -> None:
    assert_refused(stack.post("/api/admin/undo", body, token=stack.olivia()), status, code, field=field)


def test_nobody_undoes_those_above(stack: Stack, operators: Operators) -> None:
    helper = operators.new("helper", level=2)
    token, since = stack.admin_token(helper.name, helper.password), now()
    alice = stack.pending("alice")
    decide(stack, "approve", alice, stack.olivia())

    for above in ("Olivia", "sql", "sync"):
        refused = stack.post("/api/admin/undo", {"of": above, "since": since}, token=token)
        assert refused.json["code"] in ("protected_operator", "actor_unknown")
    assert stack.status(alice) == "approved"
    _rita, reviewer = with_role(stack, "moderator")
    refused = stack.post("/api/admin/undo", {"of": helper.name, "since": since}, token=reviewer)
    assert assert_refused(refused, 403, "forbidden")["permission"] == "team.manage"


def test_the_host_undoes_an_operator_on_the_command_line(stack: Stack, operators: Operators) -> None:
    mallory, config = operators.new("mallory"), stack.daemon.config_file
    token = stack.admin_token(mallory.name, mallory.password)
    alice, bob = stack.pending("alice"), stack.pending("bob")
    decide(stack, "reject", alice, token)
    decide(stack, "approve", bob, token)
    decide(stack, "ban", bob, stack.olivia())
    command = ("undo", "--by", mallory.name, "--since", "1 hour")

    planned = companion(*command, "--plan", config=config)

    told = f"{bob.name}: left, Olivia decided since\n{alice.name}: rejected → pending\n"
    assert (planned.status, planned.output) == (1, told), planned
    assert stack.status(alice) == "rejected"
    done = companion(*command, config=config)
    assert (done.status, done.output) == (1, told), done
    assert "undone: 1; left: 1" in done.errors
    assert stack.status(alice) == "pending"
    [entry] = stack.audits(alice, "user.undone")
    assert (entry["operator"], entry["detail"]["of"]) == (actor_name(), mallory.name)
    refused = companion("undo", "--by", actor_name(), "--since", "1 hour", config=config)
    assert (refused.status, refused.errors) == (1, "companion: You cannot undo your own decisions.\n")
    for since, until in (("yesterday", "1 day"), ("1 hour", "soon"), ("-1 hour", "1 day"), ("2026-13-01", "1 day")):
        mistyped = companion("undo", "--by", mallory.name, f"--since={since}", f"--until={until}", config=config)
        assert (mistyped.status, "write a time such as" in mistyped.errors) == (2, True), mistyped


def test_a_role_that_was_given_ends_with_its_sessions(stack: Stack, operators: Operators) -> None:
    mallory, since = operators.new("mallory"), now()
    token = stack.admin_token(mallory.name, mallory.password)
    eve = stack.approved("eve")
    give(stack, eve, "moderator", token)
    eves = stack.admin_token(eve.name, eve.password)

    [user] = undo(stack, mallory.name, since)["users"]

    assert (user["roleBefore"], user["role"]) == ("moderator", None)
    assert_refused(stack.get("/api/admin/users", token=eves), 401, "unauthorized")
