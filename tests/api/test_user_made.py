"""GET /api/user/made: what a member of the team made and has not ended."""

from tests.api.test_admin_token_create import make_token
from tests.api.test_admin_user_role import with_role
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


def test_an_operator_sees_what_outlives_their_password_and_a_player_has_nothing(
    stack: Stack, operators: Operators
) -> None:
    oscar, bob = operators.new("oscar"), stack.approved("bob")
    session = stack.admin_token(oscar.name, oscar.password)
    make_token(stack, "oscars-bot", "users.read", by=session)
    made = stack.get("/api/user/made", token=session).json
    assert (made["tokens"], len(made["sessions"]), made["chatAccounts"]) == (["oscars-bot"], 1, [])
    nothing = stack.get("/api/user/made", token=stack.user_token(bob)).json
    assert {kind for kind in ("tokens", "links", "invitations", "sessions", "chatAccounts") if nothing[kind]} == set()
    assert_refused(stack.get("/api/user/made"), 401, "unauthorized")


def test_what_a_role_made_is_seen_by_its_bearer_alone(stack: Stack) -> None:
    _rita, ritas = with_role(stack, "reviewer")
    stack.post("/api/admin/invitation", {"uses": 1, "days": 7, "grants": []}, token=ritas)
    assert len(stack.get("/api/user/made", token=ritas).json["invitations"]) == 1
