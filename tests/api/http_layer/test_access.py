"""Access control: every route of the table against every kind of missing, bad or powerless token."""

from dataclasses import dataclass

import pytest

from regsvc.app.routes import ROUTES
from regsvc.http.route import Access, Route
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.forged_tokens import FORGERIES
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Person, Stack
from tests.support.watching import ask_until

Tokens = dict[str, str]


def routes(*access: Access) -> list[object]:
    return [pytest.param(route, id=name_of(route)) for route in ROUTES if route.access in access]


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def request(stack: Stack, route: Route, token: str | None, **headers: str) -> Reply:
    """Send a request without any fields: access is refused before fields are looked at."""
    body: object = {} if route.method == "POST" else None
    return stack.daemon.request(route.method, route.path, token=token, json=body, headers=headers)


ENDED = (
    "logged out",
    "banned",
    "banned by SQL",
    "banned and unbanned",
    "deleted",
    "password changed",
    "expired",
    "moved",
)


def ended_tokens(stack: Stack, operators: Operators, audience: str) -> Tokens:
    """Return tokens of sessions that were valid once, by what ended them."""
    people = {reason: operators.new("oscar", level=2) for reason in ENDED}
    tokens = {reason: token_of(stack, person, audience) for reason, person in people.items()}
    assert stack.post("/api/logout", {}, token=tokens["logged out"]).status == 200
    stack.decides("ban", people["banned"])
    stack.decides("ban", people["banned and unbanned"])
    stack.decides("unban", people["banned and unbanned"])
    stack.decides("delete", people["deleted"])
    stack.decides("password", people["password changed"], password="another-secret")
    change_user(stack, people["banned by SQL"], "status = 'banned'")
    change_user(stack, people["moved"], "token_generation = token_generation + 1")
    change_sessions(stack, people["expired"], "expires_at", ago(seconds=1))
    return tokens


def token_of(stack: Stack, person: Person, audience: str) -> str:
    if audience == "admin":
        return stack.admin_token(person.name, person.password)
    return stack.user_token(person)


def change_user(stack: Stack, person: Person, change: str) -> None:
    our_database(stack).execute(f"UPDATE regsvc_user SET {change} WHERE username_key = ?", (person.key,))


def change_sessions(stack: Stack, person: Person, column: str, moment: str) -> None:
    our_database(stack).execute(
        f"UPDATE regsvc_session SET {column} = ? WHERE user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)",
        (moment, person.key),
    )


def test_what_is_not_for_everybody_says_so() -> None:
    """The stories below go by what the table of the routes says of each."""

    def others(prefix: str, access: Access) -> set[str]:
        return {route.path for route in ROUTES if route.path.startswith(prefix) and route.access is not access}

    assert others("/api/admin/", Access.ADMIN) == {"/api/admin/login", "/api/admin/verify"}
    assert others("/api/user/", Access.USER) == {"/api/user/status"}


# --- No valid session: 401 ---


@pytest.fixture(scope="module")
def bad_admin_tokens(stack: Stack, operators: Operators) -> Tokens:
    idle = operators.new("otto")
    token = stack.admin_token(idle.name, idle.password)
    change_sessions(stack, idle, "last_seen_at", ago(hours=2, seconds=1))
    forged = {name: forge(stack, stack.olivia()) for name, forge in FORGERIES.items()}
    return forged | ended_tokens(stack, operators, "admin") | {"idle": token}


@pytest.fixture(scope="module")
def bad_user_tokens(stack: Stack, operators: Operators) -> Tokens:
    token = stack.user_token(stack.approved("bob"))
    forged = {name: forge(stack, token) for name, forge in FORGERIES.items()}
    return forged | ended_tokens(stack, operators, "user")


@pytest.mark.parametrize("route", routes(Access.ADMIN))
def test_an_admin_route_refuses_a_bad_token(stack: Stack, bad_admin_tokens: Tokens, route: Route) -> None:
    def check(reason: str) -> None:
        assert_refused(request(stack, route, bad_admin_tokens[reason]), 401, "unauthorized")

    assert_each([*FORGERIES, *ENDED, "idle"], check)


@pytest.mark.parametrize("route", routes(Access.USER, Access.PUBLIC))
def test_every_other_route_refuses_a_bad_token_too(stack: Stack, bad_user_tokens: Tokens, route: Route) -> None:
    def check(reason: str) -> None:
        assert_refused(request(stack, route, bad_user_tokens[reason]), 401, "unauthorized")

    assert_each([*FORGERIES, *ENDED], check)


@pytest.mark.parametrize("route", routes(Access.ADMIN, Access.USER))
def test_without_a_token_there_is_no_entry(stack: Stack, route: Route) -> None:
    assert_refused(request(stack, route, None), 401, "unauthorized")
    assert_refused(request(stack, route, None, **{"Accept-Language": "zh"}), 401, "unauthorized", language="zh")
    assert_refused(request(stack, route, ""), 401, "unauthorized")


@pytest.mark.parametrize("route", routes(Access.ADMIN, Access.USER)[::5])
def test_a_token_counts_in_its_header_only(stack: Stack, route: Route) -> None:
    token = stack.olivia()
    for smuggled in (
        {"Cookie": f"token={token}"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": token},
        {"X-Access-Token": token},
    ):
        assert_refused(request(stack, route, None, **smuggled), 401, "unauthorized")
    body = {"token": token} if route.method == "POST" else None
    reply = stack.daemon.request(route.method, f"{route.path}?token={token}&access_token={token}", json=body)
    assert_refused(reply, 401, "unauthorized")


# --- A valid session without admin rights: 403 ---

FORMER_ADMINS = ("de-opped", "pending again")
POWERLESS = ("a user", "an operator's user token", "pending with an operator's name")


@pytest.fixture(scope="module")
def powerless_tokens(stack: Stack, operators: Operators) -> Tokens:
    """Valid tokens without admin rights."""
    tokens = {
        "a user": stack.user_token(stack.approved("bob")),
        "an operator's user token": stack.user_token(operators.new("oscar")),
    }
    former, returned, applicant = operators.new("otto"), operators.new("oda"), stack.pending("olaf")
    tokens["de-opped"] = stack.admin_token(former.name, former.password)
    tokens["pending again"] = stack.admin_token(returned.name, returned.password)
    tokens["pending with an operator's name"] = stack.user_token(applicant)
    operators.dismiss(former)
    operators.appoint(applicant)
    change_user(stack, returned, "status = 'pending', applied_status = 'pending'")
    return tokens


@pytest.mark.parametrize("route", routes(Access.ADMIN))
def test_an_admin_route_refuses_whoever_is_no_admin(stack: Stack, powerless_tokens: Tokens, route: Route) -> None:
    def check(reason: str) -> None:
        token = powerless_tokens[reason]
        assert_refused(request(stack, route, token), 403, "forbidden")
        chinese = request(stack, route, token, **{"Accept-Language": "zh", "Content-Type": "application/json"})
        assert chinese.json["code"] == "forbidden"

    def check_former_admin(reason: str) -> None:
        reply = request(stack, route, powerless_tokens[reason])  # the session ends a moment after the right
        assert (reply.status, reply.code) in ((403, "forbidden"), (401, "unauthorized"))

    assert_each(POWERLESS, check)
    assert_each(FORMER_ADMINS, check_former_admin)


@pytest.mark.parametrize("route", routes(Access.ADMIN))
def test_a_missing_right_is_told_before_anything_else(stack: Stack, powerless_tokens: Tokens, route: Route) -> None:
    headers = {"Content-Type": "application/json"}
    for token, status in ((None, 401), (powerless_tokens["a user"], 403)):
        reply = stack.daemon.request(route.method, route.path, body=b"[1", token=token, headers=headers)
        assert reply.status == status


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "GET"], ids=name_of)
def test_head_needs_what_get_needs(stack: Stack, powerless_tokens: Tokens, route: Route) -> None:
    for token in (None, powerless_tokens["a user"]):
        if (status := request(stack, route, token).status) >= 400:
            reply = stack.daemon.request("HEAD", route.path, token=token)
            assert (reply.status, reply.body) == (status, b"")


# --- The audit log ---


@dataclass
class Trespasser:
    person: Person
    token: str


@pytest.fixture
def trespasser(stack: Stack) -> Trespasser:
    mallory = stack.approved("mallory")
    return Trespasser(mallory, stack.user_token(mallory))


def test_a_refused_admin_call_is_audited_once_and_counted(stack: Stack, trespasser: Trespasser) -> None:
    for _try in range(3):
        stack.get("/api/admin/users", token=trespasser.token)
    stack.post("/api/admin/user/ban", {"username": OPERATOR}, token=trespasser.token)

    query = {"action": "admin.denied", "operator": trespasser.person.name}
    [entry] = stack.get("/api/admin/audits", query, token=stack.olivia()).json["audits"]
    assert (entry["ip"], entry["target"], entry["detail"]["occurrences"]) == ("127.0.0.1", None, 4)


# --- ops.json ---


def test_a_half_written_list_keeps_the_last_good_one(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = stack.admin_token(oscar.name, oscar.password)
    whole = stack.game.ops_file.read_text(encoding="utf-8")

    for half in (whole[: len(whole) // 2], "", "{}", "\x00", "[" * 5000):
        stack.game.ops_file.write_text(half, encoding="utf-8")
        assert stack.get("/api/admin/verify", token=token).status == 200, half[:20]
    assert stack.daemon.wait_for_log("the last good list of operators stays")

    operators.dismiss(oscar)
    assert stack.get("/api/admin/verify", token=token).status in (403, 401)


def test_a_list_that_is_gone_names_nobody(make_stack: MakeStack) -> None:
    """On a stack of its own: where the list is away for seconds, as on a busy machine, all operators' sessions end."""
    stack = make_stack()
    oscar = Operators(stack).new("oscar")
    token = stack.admin_token(oscar.name, oscar.password)
    whole = stack.game.ops_file.read_text(encoding="utf-8")

    stack.game.ops_file.unlink()
    assert stack.get("/api/admin/verify", token=token).status in (403, 401)
    reply = stack.post("/api/admin/login", {"username": OPERATOR, "password": OPERATORS_PASSWORD})
    assert_refused(reply, 403, "not_operator")

    stack.game.ops_file.write_text(whole, encoding="utf-8")

    def comes_back() -> int:  # a session may still end for the right that was missed
        return stack.get("/api/admin/verify", token=stack.admin_token(oscar.name, oscar.password)).status

    assert ask_until(comes_back, lambda status: status == 200) == 200


def test_operators_are_known_in_any_case(stack: Stack, operators: Operators) -> None:
    oscar = stack.approved("oscar")
    operators.appoint(Person(oscar.name.upper(), oscar.email, oscar.password))
    token = stack.admin_token(oscar.name, oscar.password)
    assert stack.get("/api/admin/verify", token=token).status == 200
