"""POST /api/login where front ends know one login and one token: an operator's opens the admin routes, too."""

import time

import pytest

from regsvc.app.routes import ROUTES
from regsvc.http.route import Access, Route
from tests.support.contract import example_body
from tests.support.operators import Operators
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import NO_LIMIT, OPERATOR, OPERATORS_PASSWORD, MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("sqlite")

OLIVIA = {"username": OPERATOR, "password": OPERATORS_PASSWORD, "language": "en"}
HOUR = 3600 * 1000
MINUTE = 60_000
ADMIN_ROUTES = [route for route in ROUTES if route.access is Access.ADMIN and route.path != "/events"]


@pytest.fixture
def token(stack: Stack) -> str:
    """Olivia's, as her browser stores it."""
    reply = stack.post("/api/login", OLIVIA)
    token: str = reply.json["token"]
    return token


def test_an_operator_gets_what_the_admin_login_gives(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    before = time.time() * 1000
    reply = stack.login(oscar)
    assert (reply.status, reply.json["success"], reply.json["isAdmin"]) == (200, True, True)
    assert abs(reply.json["expiresAt"] - before - 12 * HOUR) < MINUTE
    assert [entry["action"] for entry in stack.audits(oscar) if entry["action"].endswith("logged_in")] == [
        "admin.logged_in"
    ]


@pytest.mark.parametrize("route", ADMIN_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_that_token_is_good_on_every_admin_route(stack: Stack, token: str, route: Route) -> None:
    if route.method == "GET":
        reply = stack.get(route.path, {"username": OPERATOR}, token=token)
    else:
        reply = stack.post(route.path, {**example_body(route.path), "username": "Nobody"}, token=token)
    assert reply.status == 200, reply.text


def test_it_is_good_for_the_operators_own_account(stack: Stack, token: str) -> None:
    data = stack.get("/api/user/status", {"username": OPERATOR}, token=token).json["data"]
    assert (data["status"], "reason" in data) == ("approved", True)
    assert stack.get("/api/user/export", token=token).status == 200
    assert stack.post("/api/logout", token=token).status == 200
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")


def test_all_others_get_a_users_token(stack: Stack, operators: Operators) -> None:
    waiting_operator = stack.pending("oscar")
    operators.appoint(waiting_operator)
    for person in (stack.approved("bob"), stack.pending("alice"), waiting_operator):
        reply = stack.login(person)
        assert reply.json["isAdmin"] is False
        assert_refused(stack.get("/api/admin/users", token=reply.json["token"]), 403, "forbidden")


def test_both_logins_count_the_same_failures(make_stack: MakeStack) -> None:
    strict = make_stack(config={"http": {"legacy_status": True}, "auth": {"login_limits": ["3 per hour"]}})
    for path in ("/api/login", "/api/admin/login", "/api/login"):
        assert_refused_as_200(strict.post(path, {**OLIVIA, "password": "wrong"}), "bad_credentials")
    for path in ("/api/login", "/api/admin/login"):
        assert_refused_as_200(strict.post(path, OLIVIA), "rate_limited")


def test_without_legacy_status_the_login_of_users_opens_nothing_else(make_stack: MakeStack) -> None:
    modern = make_stack(config={"auth": {"login_limits": NO_LIMIT}})
    modern.olivia()
    reply = modern.login(Person(OPERATOR, "", OPERATORS_PASSWORD))
    assert reply.json["isAdmin"] is True
    assert_refused(modern.get("/api/admin/users", token=reply.json["token"]), 403, "forbidden")
