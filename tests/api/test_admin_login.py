"""POST /api/admin/login: which operators can log in, what refusals reveal, and what is audited."""

import time
from typing import Any

import pytest

from tests.support.authme.authme_like import long_ago
from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import NO_LIMIT, OPERATOR, OPERATORS_PASSWORD, MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("sqlite")

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
    assert set(payload) == {"success", "token", "expiresAt", "username", "email", "status", "isAdmin"}
    assert (payload["username"], payload["email"], payload["status"]) == (oscar.name, oscar.email, "approved")
    assert payload["isAdmin"] is True
    assert abs(payload["expiresAt"] - before - TWELVE_HOURS) < MINUTE
    assert stack.get("/api/admin/users", token=payload["token"]).status == 200
    [entry] = audits(stack, "admin.logged_in", target=oscar.name)
    assert (entry["operator"], entry["ip"]) == (oscar.name, "127.0.0.1")


def test_the_name_may_be_a_verified_email_or_in_another_case(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    for name in (oscar.email, oscar.email.upper(), oscar.name.upper(), f" {oscar.name} "):
        reply = log_in(stack, oscar, username=name)
        assert (reply.status, reply.json["username"]) == (200, oscar.name)


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


def test_unknown_name_and_wrong_password_get_the_same_answer(stack: Stack, operators: Operators) -> None:
    oscar, nobody = operators.new("oscar"), stack.newcomer("nobody")
    headers = {"X-Request-ID": "the-same"}

    def answer(name: str) -> tuple[int, bytes, list[tuple[str, str]]]:
        body = {"username": name, "password": "a wrong one"}
        reply = stack.post("/api/admin/login", body, headers=headers)
        assert_refused(reply, 401, "bad_credentials")
        return reply.status, reply.body, [header for header in reply.headers.items() if header[0] != "Date"]

    answers = [answer(name) for name in (oscar.name, nobody.name, oscar.email, nobody.email, "é" * 300, "@", "\u202e")]
    assert all(one == answers[0] for one in answers)


@pytest.mark.parametrize("password", ["x" * 5000, "é" * 200, "a\u202eb"])
def test_an_impossible_password_is_a_wrong_one(stack: Stack, password: str) -> None:
    reply = stack.post("/api/admin/login", {"username": OPERATOR, "password": password})
    assert_refused(reply, 401, "bad_credentials")


def test_failed_logins_are_one_counted_entry(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    for _try in range(3):
        log_in(stack, Person(oscar.name, oscar.email, "a wrong one"))

    [entry] = audits(stack, "user.login_failed", target=oscar.name)
    assert (entry["operator"], entry["ip"], entry["detail"]) == ("", "127.0.0.1", {"occurrences": 3})


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


def test_a_banned_operator_hears_why_after_the_right_password_only(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar", level=3)
    end = round(time.time() * 1000) + 3_600_000
    stack.decides("ban", oscar, reason="went too far", expiresAt=end)

    wrong = assert_refused(log_in(stack, Person(oscar.name, oscar.email, "a wrong one")), 401, "bad_credentials")
    assert "reason" not in wrong
    payload = assert_refused(log_in(stack, oscar, language="zh"), 403, "banned", language="zh")
    assert (payload["reason"], payload["banExpiresAt"]) == ("went too far", end)

    stack.decides("unban", oscar)
    assert log_in(stack, oscar).status == 200


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


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "username"),
        ({"username": OPERATOR}, "password"),
        ({"username": OPERATOR, "password": ""}, "password"),
        ({"username": "", "password": OPERATORS_PASSWORD}, "username"),
        ({"username": 7, "password": OPERATORS_PASSWORD}, "username"),
        ({"username": OPERATOR, "password": None}, "password"),
        ({"username": OPERATOR, "password": ["x"]}, "password"),
        ({"username": OPERATOR, "password": "x", "totp": 123456}, "totp"),
    ],
    ids=str,
)
def test_a_missing_credential_is_no_failed_login(stack: Stack, body: dict[str, Any], field: str) -> None:
    def failures() -> list[dict[str, Any]]:
        return audits(stack, "user.login_failed")

    before = failures()
    assert_refused(stack.post("/api/admin/login", body), 422, "invalid_field", field=field)
    assert failures() == before


def test_a_body_that_is_none_is_refused(stack: Stack) -> None:
    assert_refused(stack.post("/api/admin/login", ["Olivia"]), 400, "malformed_body")
    headers = {"Content-Type": "text/plain"}
    reply = stack.daemon.request("POST", "/api/admin/login", body=b"{}", headers=headers)
    assert_refused(reply, 415, "unsupported_media_type")


# --- Limits and levels: stacks of their own ---


def test_too_many_tries_have_to_wait(make_stack: MakeStack) -> None:
    stack = make_stack(config={"auth": {"login_limits": ["3 per minute"]}})
    somebody = stack.newcomer("mallory")
    for _try in range(3):
        assert_refused(log_in(stack, somebody), 401, "bad_credentials")
    payload = assert_refused(log_in(stack, somebody), 429, "rate_limited")
    assert 0 < payload["remainingSeconds"] <= 60
    reply = stack.post("/api/admin/login", {"username": OPERATOR, "password": OPERATORS_PASSWORD, "language": "zh"})
    assert_refused(reply, 429, "rate_limited", language="zh")


def test_failures_in_a_row_delay_an_unknown_client(make_stack: MakeStack) -> None:
    stack = make_stack(config={"auth": {"login_limits": NO_LIMIT}})
    nobody = stack.newcomer("nobody")
    for name in (OPERATOR, nobody.name):
        attacker = Person(name, "", "a wrong one")
        for _try in range(6):
            assert_refused(log_in(stack, attacker), 401, "bad_credentials")
        payload = assert_refused(log_in(stack, attacker), 429, "rate_limited")
        assert payload["remainingSeconds"] <= 60


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
