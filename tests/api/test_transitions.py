"""Every decision on every status: the legal ones and their effects; all others are refused."""

import pytest

from regsvc.api.routes import ROUTES
from regsvc.users.transitions import TRANSITIONS
from tests.support.decisions import STATUSES, person_with_status
from tests.support.each import assert_each
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

pytestmark = pytest.mark.one_database("sqlite")

LEGAL = {
    ("approve", "pending"): "approved",
    ("approve", "rejected"): "approved",
    ("reject", "pending"): "rejected",
    ("ban", "pending"): "banned",
    ("ban", "approved"): "banned",
    ("ban", "rejected"): "banned",
    ("unban", "banned"): "approved",
    ("delete", "pending"): "deleted",
    ("delete", "approved"): "deleted",
    ("delete", "rejected"): "deleted",
    ("delete", "banned"): "deleted",
}
ACTIONS = {
    "approve": "user.approved",
    "reject": "user.rejected",
    "ban": "user.banned",
    "unban": "user.unbanned",
    "delete": "user.deleted",
}
PAIRS = [(transition, status) for transition in ACTIONS for status in STATUSES]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def test_the_table_is_whole() -> None:
    assert set(TRANSITIONS) == set(ACTIONS)
    payload = {
        (name, source): rule.target or "deleted" for name, rule in TRANSITIONS.items() for source in rule.sources
    }
    assert payload == LEGAL
    paths = {route.path for route in ROUTES}
    assert {f"/api/admin/user/{transition}" for transition in ACTIONS} <= paths


@pytest.mark.parametrize(("transition", "status"), LEGAL)
def test_a_legal_decision_has_one_effect_and_one_entry(stack: Stack, transition: str, status: str) -> None:
    person = person_with_status(stack, status)
    entries = stack.audits(person)

    reply = stack.decides(transition, person, reason="because")

    target = LEGAL[transition, status]
    assert set(reply.json) == {"success", "message", "username", "status"}
    assert (reply.json["username"], reply.json["status"]) == (person.name, target)
    assert person.name in reply.json["message"]
    assert stack.status(person) == (None if target == "deleted" else target)
    [entry] = stack.audits(person)[: -len(entries)]
    assert (entry["action"], entry["operator"], entry["ip"]) == (ACTIONS[transition], "Olivia", "127.0.0.1")
    assert entry["detail"] == {"statusBefore": status, "reason": "because"}
    assert stack.sync()["errors"] == []
    assert stack.status(person) == (None if target == "deleted" else target)


@pytest.mark.parametrize(("transition", "status"), ILLEGAL)
def test_an_illegal_decision_changes_nothing(stack: Stack, transition: str, status: str) -> None:
    person = person_with_status(stack, status)
    before = stack.user(person), stack.audits(person), len(stack.smtp.letters_to(person.email))
    row = stack.authme.find(person.name)

    payload = assert_refused(stack.decide(transition, person), 409, "wrong_status")
    assert payload["status"] == status
    chinese = stack.decide(transition, person, language="zh")
    assert assert_refused(chinese, 409, "wrong_status", language="zh")["status"] == status

    assert (stack.user(person), stack.audits(person)) == before[:2]
    assert stack.authme.find(person.name) == row


@pytest.mark.parametrize("transition", [*ACTIONS, "password"])
def test_nobody_of_that_name(stack: Stack, transition: str) -> None:
    nobody = stack.newcomer("nobody")
    assert_refused(stack.decide(transition, nobody), 404, "user_not_found", field="username")
    chinese = stack.decide(transition, nobody, language="zh")
    assert_refused(chinese, 404, "user_not_found", field="username", language="zh")
    for odd in ("", " ", "x" * 300, "%", "_", "é\u202e", "'; DROP TABLE regsvc_user; --"):
        reply = stack.post(f"/api/admin/user/{transition}", {"username": odd}, token=stack.olivia())
        assert_refused(reply, 404, "user_not_found", field="username")


WRONG_BODIES: tuple[tuple[dict[str, object], str], ...] = (
    ({}, "username"),
    ({"username": None}, "username"),
    ({"username": 7}, "username"),
    ({"username": ["Bob"]}, "username"),
    ({"username": "Bob", "usernames": ["Bob"]}, "usernames"),
    ({"usernames": []}, "usernames"),
    ({"usernames": "Bob"}, "usernames"),
    ({"usernames": ["Bob", 7]}, "usernames"),
    ({"usernames": [f"Bob{number}" for number in range(101)]}, "usernames"),
    ({"username": "Bob", "reason": 7}, "reason"),
    ({"username": "Bob", "reason": "x" * 4001}, "reason"),
    ({"username": "Bob", "silent": "yes"}, "silent"),
    ({"username": "Bob", "language": 7}, "language"),
)
"""Bodies with one wrong field, and its name."""


@pytest.mark.parametrize("transition", [*ACTIONS, "password"])
def test_a_field_of_the_wrong_type_is_named(stack: Stack, transition: str) -> None:
    def check(case: tuple[dict[str, object], str]) -> None:
        body, field = case
        reply = stack.post(f"/api/admin/user/{transition}", body, token=stack.olivia())
        assert_refused(reply, 422, "invalid_field", field=field)

    assert_each(WRONG_BODIES, check)


@pytest.mark.parametrize("transition", ACTIONS)
def test_a_name_in_another_case_is_the_same_user(stack: Stack, transition: str) -> None:
    status = next(status for name, status in LEGAL if name == transition)
    person = person_with_status(stack, status)
    body = {"username": person.name.upper()}
    reply = stack.post(f"/api/admin/user/{transition}", body, token=stack.olivia())
    assert (reply.status, reply.json["username"]) == (200, person.name)


# --- The old front end ---


@pytest.fixture(scope="module")
def legacy(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"legacy_status": True}})


@pytest.mark.parametrize(("transition", "status"), ILLEGAL)
def test_under_legacy_status_a_refused_decision_is_200(legacy: Stack, transition: str, status: str) -> None:
    person = person_with_status(legacy, status)
    reply = legacy.decide(transition, person)
    payload = reply.json
    assert (reply.status, payload["success"], payload["code"], payload["status"]) == (
        200,
        False,
        "wrong_status",
        status,
    )
    assert payload["msg"] == payload["message"]
