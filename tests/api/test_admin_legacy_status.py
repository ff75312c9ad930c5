"""Under `http.legacy_status` an old front end gets the service's own refusals with 200, all others as ever."""

from typing import Any

import pytest

from tests.support.decisions import decide_on_many, person_with_status
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import NO_LIMIT, OPERATOR, MakeStack, Person, Stack

DECISIONS = ("approve", "reject", "ban", "unban", "delete", "password")


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"legacy_status": True}, "auth": {"login_limits": NO_LIMIT}})


def test_success_repeats_its_message(stack: Stack) -> None:
    alice = stack.pending("alice")
    payload = stack.decides("approve", alice).json
    assert payload["msg"] == payload["message"] == f"{alice.name} was approved."
    payload = stack.post("/api/admin/sync", {}, token=stack.olivia()).json
    assert payload["msg"] == payload["message"]


def log_in(stack: Stack, name: str, password: str, **fields: object) -> Any:
    return stack.post("/api/admin/login", {"username": name, "password": password, **fields})


def test_every_refusal_of_the_login(stack: Stack) -> None:
    bob, banned = stack.approved("bob"), person_with_status(stack, "banned", "ben")
    assert_refused_as_200(log_in(stack, OPERATOR, "a wrong one"), "bad_credentials")
    assert_refused_as_200(log_in(stack, bob.name, bob.password, language="zh"), "not_operator", "zh")
    assert_refused_as_200(log_in(stack, banned.name, banned.password), "banned")
    assert_refused_as_200(stack.post("/api/admin/login", {"username": OPERATOR}), "invalid_field")


def test_waiting_as_well(make_stack: MakeStack) -> None:
    stack = make_stack(config={"http": {"legacy_status": True}, "auth": {"login_limits": ["1 per minute"]}})
    log_in(stack, "nobody", "a wrong one")
    reply = log_in(stack, "nobody", "a wrong one")
    payload = assert_refused_as_200(reply, "rate_limited")
    assert payload["remainingSeconds"] == int(reply.headers["Retry-After"])


@pytest.mark.parametrize("decision", DECISIONS)
def test_the_refusals_of_a_decision(stack: Stack, decision: str) -> None:
    assert_refused_as_200(stack.decide(decision, stack.newcomer("nobody")), "user_not_found")
    reply = stack.post(f"/api/admin/user/{decision}", {}, token=stack.olivia())
    assert assert_refused_as_200(reply, "invalid_field")["field"] == "username"


@pytest.mark.parametrize("decision", ["reject", "ban", "delete", "password"])
def test_an_equal_is_protected_with_200(stack: Stack, decision: str) -> None:
    olivia = Person(OPERATOR, "", "")
    assert_refused_as_200(stack.decide(decision, olivia, language="zh"), "protected_operator", "zh")


def test_a_password_against_the_rules(stack: Stack) -> None:
    bob = stack.approved("bob")
    payload = assert_refused_as_200(stack.decide("password", bob, password="abc"), "invalid_password")
    assert payload["fault"] == "too_short"


def test_wrong_parameters_of_the_lists(stack: Stack) -> None:
    for path in ("/api/admin/users", "/api/admin/audits"):
        reply = stack.get(path, {"size": "101"}, token=stack.olivia())
        assert assert_refused_as_200(reply, "invalid_field")["field"] == "size"


def test_many_at_once_are_as_ever(stack: Stack) -> None:
    alice, nobody = stack.pending("alice"), stack.newcomer("nobody")
    results = decide_on_many(stack, "approve", [alice.name, nobody.name])
    assert [result.get("code") for result in results] == [None, "user_not_found"]


# --- What stays ---


@pytest.mark.parametrize("decision", DECISIONS)
def test_broken_requests_and_missing_rights_keep_their_status(stack: Stack, decision: str) -> None:
    path = f"/api/admin/user/{decision}"
    bob = stack.approved("bob")
    assert_refused(stack.post(path, {}), 401, "unauthorized")
    assert_refused(stack.post(path, {}, token=stack.user_token(bob)), 403, "forbidden")
    assert_refused(stack.post(path, ["not", "an", "object"], token=stack.olivia()), 400, "malformed_body")
    assert_refused(stack.get(path, token=stack.olivia()), 405, "method_not_allowed")
    headers = {"Content-Type": "text/plain"}
    reply = stack.daemon.request("POST", path, body=b"{}", headers=headers, token=stack.olivia())
    assert_refused(reply, 415, "unsupported_media_type")
