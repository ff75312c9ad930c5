"""POST /api/admin/user/sessions/end: an admin ends one session of a user."""

from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import Stack

LIST, END = "/api/user/sessions", "/api/admin/user/sessions/end"


def test_an_admin_ends_one_session_of_a_user(stack: Stack) -> None:
    alice = stack.approved("alice")
    tokens = [stack.user_token(alice), stack.user_token(alice)]
    user = stack.get("/api/admin/user", {"username": alice.name}, token=stack.olivia()).json["user"]
    newest = user["sessions"][0]["id"]
    body = {"username": alice.name.upper(), "session": newest}
    assert_refused(stack.post(END, body, token=tokens[0]), 403, "forbidden")
    reply = stack.post(END, body, token=stack.olivia())
    assert (reply.status, alice.name in reply.json["message"]) == (200, True)
    assert stack.get(LIST, token=tokens[0]).status == 200
    assert_refused(stack.get(LIST, token=tokens[1]), 401, "unauthorized")
    assert_refused(stack.post(END, body, token=stack.olivia()), 404, "session_not_found", field="session")
    assert_refused(
        stack.post(END, {**body, "username": "Nobody"}, token=stack.olivia()), 404, "user_not_found", field="username"
    )
    assert [entry["operator"] for entry in stack.audits(alice, "user.session_ended")] == ["Olivia"]


def test_operators_do_not_end_their_equals_sessions_but_their_own(stack: Stack) -> None:
    operators = Operators(stack)
    oscar, paula = operators.new("oscar", 3), operators.new("paula", 3)
    token = stack.admin_token(oscar.name, oscar.password)
    paulas = stack.user_token(paula)

    def end(username: str) -> Reply:
        user = stack.get("/api/admin/user", {"username": username}, token=token).json["user"]
        body = {"username": username, "session": user["sessions"][-1]["id"]}
        return stack.post(END, body, token=token)

    assert_refused(end(paula.name), 409, "protected_operator", field="username")
    assert stack.get(LIST, token=paulas).status == 200
    assert end(oscar.name).status == 200
    assert_refused(stack.get(LIST, token=token), 401, "unauthorized")
