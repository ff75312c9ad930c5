"""POST /api/admin/login: which operators can log in, what refusals reveal, and what is audited."""

import time
from typing import Any

import pytest

from tests.support.authme.authme_like import long_ago
from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, MakeStack, Person, Stack

TWELVE_HOURS = 12 * 3600 * 1000
MINUTE = 60_000


def log_in(stack: Stack, person: Person, **fields: object) -> Reply:
    return stack.post("/api/admin/login", {"username": person.name, "password": person.password, **fields})


def audits(stack: Stack, action: str, **query: str) -> list[dict[str, Any]]:
    reply = stack.get("/api/admin/audits", {"action": action, **query}, token=stack.olivia())
    entries: list[dict[str, Any]] = reply.json["audits"]
    return entries


def test_an_operator_gets_an_admin_token(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    before = time.time() * 1000

    reply = log_in(stack, oscar)

    payload = reply.json
    assert reply.status == 200
    assert set(payload) == {"success", "token", "expiresAt", "username", "email", "status", "isAdmin", "permissions"}
    assert (payload["username"], payload["email"], payload["status"]) == (oscar.name, oscar.email, "approved")
    assert payload["isAdmin"] is True
    assert abs(payload["expiresAt"] - before - TWELVE_HOURS) < MINUTE
    assert stack.get("/api/admin/users", token=payload["token"]).status == 200
    [entry] = audits(stack, "admin.logged_in", target=oscar.name)
    assert (entry["operator"], entry["ip"]) == (oscar.name, "127.0.0.1")


def test_an_operator_whom_only_authme_knows_is_adopted(stack: Stack, operators: Operators) -> None:
    otto = stack.newcomer("otto")
    operators.appoint(otto)
    long_ago(stack.authme.table).register(otto.name, otto.password, email=otto.email)
    assert stack.status(otto) is None

    assert log_in(stack, Person(otto.name, otto.email, "a wrong one")).status == 401
    assert stack.status(otto) is None

    reply = log_in(stack, otto)
    assert (reply.status, reply.json["username"], reply.json["status"]) == (200, otto.name, "approved")
    [entry] = stack.audits(otto, "user.adopted")
    assert entry["operator"] == "sync"


# R51
@pytest.mark.parametrize("approved_by", ["another operator", "the command line"])
def test_an_operator_who_registered_in_the_game_later_has_to_be_approved(
    stack: Stack, operators: Operators, approved_by: str
) -> None:
    otto = stack.newcomer("otto")
    operators.appoint(otto)
    stack.authme.register(otto.name, otto.password)

    refused = assert_refused(log_in(stack, otto), 403, "not_operator")
    assert "not been approved" in refused["message"]
    assert stack.login(otto).json["status"] == "pending"
    assert (stack.status(otto), stack.user(otto)["isOperator"]) == ("pending", True)

    if approved_by == "the command line":
        approved = companion("users", "approve", otto.name, config=stack.daemon.config_file)
        assert (approved.status, f"{otto.name} is an operator" in approved.errors) == (0, True), approved
    else:
        stack.decides("approve", otto)
    reply = log_in(stack, otto)
    assert (reply.status, reply.json["status"], reply.json["isAdmin"]) == (200, "approved", True)


# --- Refused ---


def test_a_user_is_told_he_is_no_operator_after_the_right_password_only(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(log_in(stack, Person(bob.name, bob.email, "a wrong one")), 401, "bad_credentials")

    refused = log_in(stack, bob, language="zh")
    assert_refused(refused, 403, "not_operator", language="zh")
    assert "token" not in refused.json
    assert log_in(stack, bob).status == 403

    [entry] = audits(stack, "admin.denied", operator=bob.name)
    assert entry["detail"] == {"occurrences": 2}
    assert audits(stack, "admin.logged_in", target=bob.name) == []


def test_an_operators_name_is_not_enough_without_approval(stack: Stack, operators: Operators) -> None:
    for status in ("pending", "rejected"):
        olaf = stack.pending("olaf")
        if status == "rejected":
            stack.decides("reject", olaf)
        operators.appoint(olaf)
        assert_refused(log_in(stack, olaf), 403, "not_operator")


def test_a_dismissed_operator_is_not_let_in(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    operators.dismiss(oscar)
    assert_refused(log_in(stack, oscar), 403, "not_operator")
    operators.appoint(oscar, level=1)
    assert log_in(stack, oscar).status == 200


def test_a_row_that_appeared_does_not_make_its_player_the_operator(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    stack.authme.unregister_from_console(oscar.name)
    stack.sync()
    stack.authme.register(oscar.name, "a foreign password")

    assert_refused(log_in(stack, Person(oscar.name, oscar.email, "a foreign password")), 401, "bad_credentials")
    assert log_in(stack, oscar).status == 200


# --- Limits and levels: stacks of their own ---


def test_an_operator_below_the_configured_level_is_none(make_stack: MakeStack) -> None:
    stack = make_stack(config={"auth": {"min_operator_level": 3}})
    oscar = stack.approved("oscar")
    stack.game.write_operators(OPERATOR, oscar.name, levels={oscar.name: 2})
    assert_refused(log_in(stack, oscar), 403, "not_operator")
    stack.game.write_operators(OPERATOR, oscar.name, levels={oscar.name: 3})
    assert log_in(stack, oscar).status == 200


def test_operators_may_be_named_in_the_config(make_stack: MakeStack) -> None:
    stack = make_stack(config={"game": {"operators": ["Oda"]}})
    long_ago(stack.authme.table).register("Oda", "odas-secret")
    reply = stack.post("/api/admin/login", {"username": "oda", "password": "odas-secret"})
    assert (reply.status, reply.json["username"], reply.json["isAdmin"]) == (200, "Oda", True)
