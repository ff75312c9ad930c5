"""Whether an admin token is good: asked by the token itself (GET), or about one in the body (POST)."""

from typing import Any

import pytest

from tests.support.forged_tokens import FORGERIES
from tests.support.operators import Operators
from tests.support.refusals import assert_refused, refusal_words
from tests.support.stack import OPERATOR, Village


def test_a_good_token_says_whose_it_is_and_until_when(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    login = village.post("/api/admin/login", {"username": oscar.name, "password": oscar.password}).json

    expected = {"success": True, "valid": True, "username": oscar.name, "expiresAt": login["expiresAt"]}
    assert village.get("/api/admin/verify", token=login["token"]).json == expected
    assert village.post("/api/admin/verify", {"token": login["token"]}).json == expected
    # an old front end sends both
    assert village.post("/api/admin/verify", {"token": login["token"]}, token=login["token"]).json == expected


def test_get_refuses_what_every_admin_route_refuses(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    assert_refused(village.get("/api/admin/verify"), 401, "unauthorized")
    assert_refused(village.get("/api/admin/verify", token=village.user_token(oscar)), 403, "forbidden")
    operators.dismiss(oscar)
    assert_refused(village.get("/api/admin/verify", token=token), 403, "forbidden")


@pytest.mark.parametrize("forgery", FORGERIES)
def test_post_tells_of_a_bad_token_without_refusing_the_request(village: Village, forgery: str) -> None:
    token = FORGERIES[forgery](village, village.olivia())
    for language in ("en", "zh"):
        reply = village.post("/api/admin/verify", {"token": token, "language": language})
        told = reply.json
        assert (reply.status, told["success"], told["valid"], told["code"]) == (200, False, False, "unauthorized")
        assert told["message"] == refusal_words(told, language)
        assert "username" not in told


def test_post_tells_whether_the_right_is_there_now(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)

    def ask(token: str) -> tuple[bool, Any]:
        told = village.post("/api/admin/verify", {"token": token}).json
        return told["success"], told.get("code")

    assert ask(token) == (True, None)
    operators.dismiss(oscar)
    assert ask(token) == (False, "forbidden")
    operators.appoint(oscar)
    assert ask(token) == (True, None)
    assert ask(village.user_token(oscar)) == (False, "forbidden")
    assert village.post("/api/logout", {}, token=token).status == 200
    assert ask(token) == (False, "unauthorized")


@pytest.mark.parametrize("body", [{}, {"token": None}, {"token": 7}, {"token": ["x"]}], ids=str)
def test_post_needs_a_token_to_look_at(village: Village, body: dict[str, Any]) -> None:
    assert_refused(village.post("/api/admin/verify", body), 422, "invalid_field", field="token")


def test_junk_in_the_body_is_only_a_bad_token(village: Village) -> None:
    for junk in ("", ".", "a.b.c", "é" * 40, "x" * 30_000, "\ud7ff\u202e"):
        reply = village.post("/api/admin/verify", {"token": junk})
        assert (reply.status, reply.json["success"]) == (200, False)


def test_a_look_prolongs_nothing(village: Village) -> None:
    token = village.olivia()
    ends = {village.get("/api/admin/verify", token=token).json["expiresAt"] for _look in range(3)}
    assert len(ends) == 1
    assert village.get("/api/admin/verify", token=token).json["username"] == OPERATOR
