"""Whether an admin token is good: asked by the token itself (GET), or about one in the body (POST)."""

from typing import Any

from regsvc.core.rights import Permission
from tests.support.each import assert_each
from tests.support.forged_tokens import FORGERIES
from tests.support.operators import Operators
from tests.support.refusals import refusal_words
from tests.support.stack import OPERATOR, Stack
from tests.support.watching import ask_until


def test_a_good_token_says_whose_it_is_and_until_when(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    login = stack.post("/api/admin/login", {"username": oscar.name, "password": oscar.password}).json

    expected = {"success": True, "valid": True, "username": oscar.name, "expiresAt": login["expiresAt"]}
    expected["permissions"] = sorted(Permission)
    assert stack.get("/api/admin/verify", token=login["token"]).json == expected
    assert stack.post("/api/admin/verify", {"token": login["token"]}).json == expected
    # an old front end sends both
    assert stack.post("/api/admin/verify", {"token": login["token"]}, token=login["token"]).json == expected


def test_post_tells_of_a_bad_token_without_refusing_the_request(stack: Stack) -> None:
    def check(forgery: str) -> None:
        token = FORGERIES[forgery](stack, stack.olivia())
        for language in ("en", "zh"):
            reply = stack.post("/api/admin/verify", {"token": token, "language": language})
            body = reply.json
            assert (reply.status, body["success"], body["valid"], body["code"]) == (200, False, False, "unauthorized")
            assert body["message"] == refusal_words(body, language)
            assert "username" not in body

    assert_each(FORGERIES, check)


def test_post_tells_whether_the_right_is_there_now(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = stack.admin_token(oscar.name, oscar.password)

    def ask(token: str) -> tuple[bool, Any]:
        payload = stack.post("/api/admin/verify", {"token": token}).json
        return payload["success"], payload.get("code")

    assert ask(token) == (True, None)
    operators.dismiss(oscar)
    assert ask(token) in ((False, "forbidden"), (False, "unauthorized"))
    operators.appoint(oscar)
    ask_until(lambda: ask(token), lambda told: told == (False, "unauthorized"))  # it does not return with the right
    token = stack.admin_token(oscar.name, oscar.password)
    assert ask(token) == (True, None)
    assert ask(stack.user_token(oscar)) == (False, "forbidden")
    assert stack.post("/api/logout", {}, token=token).status == 200
    assert ask(token) == (False, "unauthorized")


def test_a_look_prolongs_nothing(stack: Stack) -> None:
    token = stack.olivia()
    ends = {stack.get("/api/admin/verify", token=token).json["expiresAt"] for _look in range(3)}
    assert len(ends) == 1
    assert stack.get("/api/admin/verify", token=token).json["username"] == OPERATOR
