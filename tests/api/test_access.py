"""Nobody uses a route without the right to it: every route of the table, every kind of intruder."""

from dataclasses import dataclass

import pytest

from regsvc.api.base import Access
from regsvc.api.routes import ROUTES, Route
from tests.support.daemon import Reply
from tests.support.forged_tokens import FORGERIES
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Village

Tokens = dict[str, str]


def routes(*access: Access) -> list[object]:
    return [pytest.param(route, id=name_of(route)) for route in ROUTES if route.access in access]


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def knock(village: Village, route: Route, token: str | None, **headers: str) -> Reply:
    """A request that says nothing; whoever lacks the right never learns what it should have said."""
    body: object = {} if route.method == "POST" else None
    return village.daemon.request(route.method, route.path, token=token, json=body, headers=headers)


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


def ended_tokens(village: Village, operators: Operators, audience: str) -> Tokens:
    """Tokens of sessions that were good once, by what ended them."""
    people = {reason: operators.new("oscar", level=2) for reason in ENDED}
    tokens = {reason: token_of(village, person, audience) for reason, person in people.items()}
    assert village.post("/api/logout", {}, token=tokens["logged out"]).status == 200
    village.decides("ban", people["banned"])
    village.decides("ban", people["banned and unbanned"])
    village.decides("unban", people["banned and unbanned"])
    village.decides("delete", people["deleted"])
    village.decides("password", people["password changed"], password="another-secret")
    change_user(village, people["banned by SQL"], "status = 'banned'")
    change_user(village, people["moved"], "token_generation = token_generation + 1")
    change_sessions(village, people["expired"], "expires_at", ago(seconds=1))
    return tokens


def token_of(village: Village, person: Person, audience: str) -> str:
    if audience == "admin":
        return village.admin_token(person.name, person.password)
    return village.user_token(person)


def change_user(village: Village, person: Person, change: str) -> None:
    our_database(village).execute(f"UPDATE regsvc_user SET {change} WHERE username_key = ?", (person.key,))


def change_sessions(village: Village, person: Person, column: str, moment: str) -> None:
    our_database(village).execute(
        f"UPDATE regsvc_session SET {column} = ? WHERE user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)",
        (moment, person.key),
    )


# --- Nobody known: 401 ---


@pytest.fixture(scope="module")
def bad_admin_tokens(village: Village, operators: Operators) -> Tokens:
    idle = operators.new("otto")
    token = village.admin_token(idle.name, idle.password)
    change_sessions(village, idle, "last_seen_at", ago(hours=2, seconds=1))
    forged = {name: forge(village, village.olivia()) for name, forge in FORGERIES.items()}
    return forged | ended_tokens(village, operators, "admin") | {"idle": token}


@pytest.fixture(scope="module")
def bad_user_tokens(village: Village, operators: Operators) -> Tokens:
    token = village.user_token(village.approved("bob"))
    forged = {name: forge(village, token) for name, forge in FORGERIES.items()}
    return forged | ended_tokens(village, operators, "user")


@pytest.mark.parametrize("reason", [*FORGERIES, *ENDED, "idle"])
@pytest.mark.parametrize("route", routes(Access.ADMIN))
def test_an_admin_route_refuses_a_bad_token(
    village: Village, bad_admin_tokens: Tokens, route: Route, reason: str
) -> None:
    assert_refused(knock(village, route, bad_admin_tokens[reason]), 401, "unauthorized")


@pytest.mark.parametrize("reason", [*FORGERIES, *ENDED])
@pytest.mark.parametrize("route", routes(Access.USER, Access.PUBLIC))
def test_every_other_route_refuses_a_bad_token_too(
    village: Village, bad_user_tokens: Tokens, route: Route, reason: str
) -> None:
    assert_refused(knock(village, route, bad_user_tokens[reason]), 401, "unauthorized")


@pytest.mark.parametrize("route", routes(Access.ADMIN, Access.USER))
def test_without_a_token_there_is_no_entry(village: Village, route: Route) -> None:
    assert_refused(knock(village, route, None), 401, "unauthorized")
    assert_refused(knock(village, route, None, **{"Accept-Language": "zh"}), 401, "unauthorized", language="zh")
    assert_refused(knock(village, route, ""), 401, "unauthorized")


@pytest.mark.parametrize("route", routes(Access.ADMIN, Access.USER))
def test_a_token_counts_in_its_header_only(village: Village, route: Route) -> None:
    token = village.olivia()
    for smuggled in (
        {"Cookie": f"token={token}"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": token},
        {"X-Access-Token": token},
    ):
        assert_refused(knock(village, route, None, **smuggled), 401, "unauthorized")
    body = {"token": token} if route.method == "POST" else None
    reply = village.daemon.request(route.method, f"{route.path}?token={token}&access_token={token}", json=body)
    assert_refused(reply, 401, "unauthorized")


# --- Known, but without the right: 403 ---

POWERLESS = ("a user", "an operator's user token", "de-opped", "pending again", "pending with an operator's name")


@pytest.fixture(scope="module")
def powerless_tokens(village: Village, operators: Operators) -> Tokens:
    """Good tokens that are no admin's."""
    tokens = {
        "a user": village.user_token(village.approved("bob")),
        "an operator's user token": village.user_token(operators.new("oscar")),
    }
    former, returned, applicant = operators.new("otto"), operators.new("oda"), village.pending("olaf")
    tokens["de-opped"] = village.admin_token(former.name, former.password)
    tokens["pending again"] = village.admin_token(returned.name, returned.password)
    tokens["pending with an operator's name"] = village.user_token(applicant)
    operators.dismiss(former)
    operators.appoint(applicant)
    change_user(village, returned, "status = 'pending', applied_status = 'pending'")
    return tokens


@pytest.mark.parametrize("reason", POWERLESS)
@pytest.mark.parametrize("route", routes(Access.ADMIN))
def test_an_admin_route_refuses_whoever_is_no_admin(
    village: Village, powerless_tokens: Tokens, route: Route, reason: str
) -> None:
    token = powerless_tokens[reason]
    assert_refused(knock(village, route, token), 403, "forbidden")
    chinese = knock(village, route, token, **{"Accept-Language": "zh", "Content-Type": "application/json"})
    assert chinese.json["code"] == "forbidden"


@pytest.mark.parametrize("route", routes(Access.ADMIN))
def test_a_missing_right_is_told_before_anything_else(village: Village, powerless_tokens: Tokens, route: Route) -> None:
    headers = {"Content-Type": "application/json"}
    for token, status in ((None, 401), (powerless_tokens["a user"], 403)):
        reply = village.daemon.request(route.method, route.path, body=b"[1", token=token, headers=headers)
        assert reply.status == status
    if route.method == "GET":
        reply = village.daemon.request("HEAD", route.path, token=powerless_tokens["a user"])
        assert (reply.status, reply.body) == (403, b"")


def test_an_admin_token_is_its_owners_on_user_routes(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    operators.dismiss(oscar)
    assert knock(village, find_route("/api/admin/users"), token).status == 403
    assert village.post("/api/logout", {}, token=token).status == 200
    assert village.post("/api/logout", {}, token=token).status == 401


def test_the_right_may_return(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    users = find_route("/api/admin/users")
    assert knock(village, users, token).status == 200

    operators.dismiss(oscar)
    for _try in range(3):
        assert_refused(knock(village, users, token), 403, "forbidden")

    operators.appoint(oscar, level=1)
    assert knock(village, users, token).status == 200


# --- What is left of it ---


@dataclass
class Trespasser:
    person: Person
    token: str


@pytest.fixture
def trespasser(village: Village) -> Trespasser:
    mallory = village.approved("mallory")
    return Trespasser(mallory, village.user_token(mallory))


def test_a_refused_admin_call_is_audited_once_and_counted(village: Village, trespasser: Trespasser) -> None:
    for _try in range(3):
        village.get("/api/admin/users", token=trespasser.token)
    village.post("/api/admin/user/ban", {"username": OPERATOR}, token=trespasser.token)

    query = {"action": "admin.denied", "operator": trespasser.person.name}
    [entry] = village.get("/api/admin/audits", query, token=village.olivia()).json["audits"]
    assert (entry["ip"], entry["target"], entry["detail"]["occurrences"]) == ("127.0.0.1", None, 4)


def test_a_stranger_leaves_no_entry(village: Village) -> None:
    def denied() -> int:
        reply = village.get("/api/admin/audits", {"action": "admin.denied"}, token=village.olivia())
        return int(reply.json["pagination"]["totalCount"])

    before = denied()
    village.get("/api/admin/users", token="garbage")
    village.get("/api/admin/users")
    assert denied() == before


# --- ops.json ---


def test_a_half_written_list_keeps_the_last_good_one(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    whole = village.game.ops_file.read_text(encoding="utf-8")

    for half in (whole[: len(whole) // 2], "", "{}", "\x00", "[" * 5000):
        village.game.ops_file.write_text(half, encoding="utf-8")
        assert village.get("/api/admin/verify", token=token).status == 200, half[:20]
    assert village.daemon.wait_for_log("the last good list of operators stays")

    operators.dismiss(oscar)
    assert village.get("/api/admin/verify", token=token).status == 403


def test_a_list_that_is_gone_names_nobody(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    whole = village.game.ops_file.read_text(encoding="utf-8")

    village.game.ops_file.unlink()
    assert village.get("/api/admin/verify", token=token).status == 403
    reply = village.post("/api/admin/login", {"username": OPERATOR, "password": OPERATORS_PASSWORD})
    assert_refused(reply, 403, "not_operator")

    village.game.ops_file.write_text(whole, encoding="utf-8")
    assert village.get("/api/admin/verify", token=token).status == 200


def test_operators_are_known_in_any_case(village: Village, operators: Operators) -> None:
    oscar = village.approved("oscar")
    operators.appoint(Person(oscar.name.upper(), oscar.email, oscar.password))
    token = village.admin_token(oscar.name, oscar.password)
    assert village.get("/api/admin/verify", token=token).status == 200


def find_route(path: str) -> Route:
    return next(route for route in ROUTES if route.path == path)
