"""The team: who is in it, and its roles."""

from dataclasses import replace

import pytest

from regsvc.app.routes import ROUTES
from regsvc.core.rights import PERMISSIONS_OF, Permission
from regsvc.http.route import Access
from tests.support.command_line import companion
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, Person, Stack

# GET /api/admin/team: who is in the team.


def test_the_team_is_operators_then_roles(stack: Stack) -> None:
    rita, _token = with_role(stack, "reviewer")
    reply = stack.get("/api/admin/team", token=stack.olivia()).json
    members = {member["username"]: member for member in reply["members"]}
    assert members[OPERATOR] == {"username": OPERATOR, "role": "operator", "level": 4, "isActive": True}
    assert members[rita.name] == {"username": rita.name, "role": "reviewer", "level": 0, "isActive": True}
    assert reply["members"][0]["role"] == "operator"


# POST /api/admin/user/role: roles are given, taken, lost, and typed in SQL; what each of them may do.


def give(stack: Stack, person: Person, role: str, token: str | None = None) -> None:
    reply = stack.post("/api/admin/user/role", {"username": person.name, "role": role}, token=token or stack.olivia())
    assert reply.status == 200, reply.json
    assert reply.json["role"] == (None if role == "none" else role)


def with_role(stack: Stack, role: str, name: str = "rita") -> tuple[Person, str]:
    """A person with this role, and their token at /admin."""
    person = stack.approved(name)
    give(stack, person, role)
    return person, stack.admin_token(person.name, person.password)


@pytest.mark.parametrize("role", ["player", "reviewer", "moderator", "operator"])
def test_every_route_is_for_those_who_have_its_permission(stack: Stack, operators: Operators, role: str) -> None:
    if role == "player":
        token = stack.user_token(stack.approved("paul"))
        allowed: frozenset[Permission] = frozenset()
    elif role == "operator":
        oscar = operators.new("oscar")
        token, allowed = stack.admin_token(oscar.name, oscar.password), frozenset(Permission)
    else:
        _rita, token = with_role(stack, role)
        allowed = PERMISSIONS_OF[role]  # type: ignore[index]
    for route in ROUTES:
        if route.access is not Access.ADMIN or route.path in ("/events", "/api/admin/events"):
            continue
        reply = stack.get(route.path, token=token) if route.method == "GET" else stack.post(route.path, {}, token=token)
        is_allowed = role != "player" if route.permission is None else route.permission in allowed
        code = reply.json.get("code")
        assert (code != "forbidden") == is_allowed, (route.path, role, reply.json)
        if not is_allowed and route.permission is not None:
            assert reply.json["permission"] == route.permission.value


def test_rita_reviews_and_can_do_nothing_else(stack: Stack) -> None:
    rita, token = with_role(stack, "reviewer")
    alice, bob = stack.pending("alice"), stack.approved("bob")

    approved = stack.post("/api/admin/user/approve", {"username": alice.name}, token=token)
    refused = stack.post("/api/admin/user/ban", {"username": bob.name}, token=token)

    assert (approved.status, stack.status(alice)) == (200, "approved")
    assert assert_refused(refused, 403, "forbidden")["permission"] == "users.ban"
    assert stack.status(bob) == "approved"
    [entry] = stack.audits(alice, "user.approved")
    assert entry["operator"] == rita.name
    verified = stack.get("/api/admin/verify", token=token).json
    assert verified["permissions"] == ["users.read", "users.review"]


def test_olivia_takes_the_role_away_while_rita_works(stack: Stack) -> None:
    rita, token = with_role(stack, "reviewer")
    assert stack.get("/api/admin/users", token=token).status == 200

    give(stack, rita, "none")

    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    give(stack, rita, "reviewer")
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    changes = [entry["detail"] for entry in stack.audits(rita, "user.role_changed")]
    assert changes[0] == {"roleBefore": None, "role": "reviewer"}
    assert changes[1] == {"roleBefore": "reviewer", "role": None}


def test_nobody_decides_about_equals_and_superiors(stack: Stack, operators: Operators) -> None:
    rita, ritas = with_role(stack, "reviewer")
    mona, monas = with_role(stack, "moderator", "mona")
    sam = operators.new("sam", level=1)
    path = "/api/admin/user/ban"
    assert_refused(stack.post(path, {"username": mona.name}, token=monas), 409, "protected_operator", field="username")
    assert_refused(stack.post(path, {"username": sam.name}, token=monas), 409, "protected_operator", field="username")
    assert stack.post(path, {"username": rita.name}, token=monas).status == 200
    assert_refused(stack.get("/api/admin/users", token=ritas), 401, "unauthorized")
    give(stack, mona, "reviewer", stack.admin_token(sam.name, sam.password))


def test_a_role_is_lost_with_the_approval(stack: Stack) -> None:
    rita, _token = with_role(stack, "reviewer")
    stack.decides("ban", rita)
    stack.decides("unban", rita)

    assert stack.user(rita)["role"] is None
    reply = stack.post("/api/admin/login", {"username": rita.name, "password": rita.password})
    assert_refused(reply, 403, "not_operator")


def test_who_is_not_approved_gets_no_role(stack: Stack) -> None:
    alice = stack.pending("alice")
    reply = stack.post("/api/admin/user/role", {"username": alice.name, "role": "reviewer"}, token=stack.olivia())
    assert_refused(reply, 409, "role_needs_approval", field="username")
    nobody = replace(alice, name="nobody")
    reply = stack.post("/api/admin/user/role", {"username": nobody.name, "role": "reviewer"}, token=stack.olivia())
    assert_refused(reply, 404, "user_not_found", field="username")
    reply = stack.post("/api/admin/user/role", {"username": alice.name, "role": "king"}, token=stack.olivia())
    assert_refused(reply, 422, "invalid_field", field="role")


def test_a_role_typed_in_sql_holds_and_is_audited(stack: Stack) -> None:
    rita, alice = stack.approved("rita"), stack.pending("alice")
    database = our_database(stack)
    for person in (rita, alice):
        database.execute("UPDATE regsvc_user SET role = 'moderator' WHERE username_key = ?", [person.key])
    token = stack.admin_token(rita.name, rita.password)
    assert stack.get("/api/admin/audits", token=token).status == 200

    stack.sync()

    [entry] = stack.audits(rita, "user.role_changed")
    assert (entry["operator"], entry["detail"]) == ("sql", {"roleBefore": None, "role": "moderator"})
    assert stack.user(alice)["role"] is None
    assert [entry["detail"]["role"] for entry in stack.audits(alice, "sync.edit_refused")] == ["moderator"]
    database.execute("UPDATE regsvc_user SET role = NULL WHERE username_key = ?", [rita.key])
    assert_refused(stack.get("/api/admin/users", token=token), 403, "forbidden")


def test_the_command_line_gives_roles(stack: Stack) -> None:
    rita = stack.approved("rita")
    done = companion("users", "role", rita.name, "moderator", config=stack.daemon.config_file)
    assert (done.status, done.output.strip()) == (0, f"{rita.name}: moderator")
    token = stack.admin_token(rita.name, rita.password)
    assert "users.ban" in stack.get("/api/admin/verify", token=token).json["permissions"]
    companion("users", "role", rita.name, "none", config=stack.daemon.config_file)
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
