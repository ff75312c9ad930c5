"""POST /api/admin/user/create: an approved user, with a password or a link to set one."""

from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, Stack


def test_a_user_with_a_password_plays_at_once(stack: Stack) -> None:
    carl = stack.newcomer("carl")
    body = {"username": carl.name, "email": carl.email, "password": carl.password}
    reply = stack.post("/api/admin/user/create", body, token=stack.olivia())
    assert (reply.status, reply.json["link"], stack.status(carl)) == (200, None, "approved")
    assert stack.login(carl).status == 200
    again = stack.post("/api/admin/user/create", body, token=stack.olivia())
    assert_refused(again, 409, "username_taken", field="username")


def test_a_user_without_one_sets_it_with_the_link(stack: Stack) -> None:
    dora = stack.newcomer("dora")
    reply = stack.post("/api/admin/user/create", {"username": dora.name}, token=stack.olivia())
    token = reply.json["link"].partition("#token=")[2]
    assert stack.post("/api/password/reset", {"token": token, "newPassword": dora.password}).status == 200
    assert stack.login(dora).status == 200


def test_an_operators_name_is_not_given_away(stack: Stack) -> None:
    reply = stack.post("/api/admin/user/create", {"username": OPERATOR.upper()}, token=stack.olivia())
    assert_refused(reply, 422, "reserved_username", field="username")
