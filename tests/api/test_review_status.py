"""GET /api/review/status: like the user's status, but an unknown name is a refusal."""

import pytest

from tests.support.daemon import Reply
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


def ask(stack: Stack, username: str, **options: object) -> Reply:
    return stack.get("/api/review/status", {"username": username}, **options)


def test_an_anonymous_client_gets_the_status_and_nothing_else(stack: Stack) -> None:
    alice = stack.pending("alice")
    expected = {"success": True, "username": alice.name, "status": "pending"}
    assert ask(stack, alice.name.upper()).json == expected
    stack.decides("approve", alice, reason="welcome")
    assert ask(stack, alice.name).json == expected | {"status": "approved"}
    stack.decides("ban", alice, reason="griefing")
    assert ask(stack, alice.name).json == expected | {"status": "banned"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_the_owner_and_admins_are_told_the_rest(stack: Stack, who: str) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="an ugly name")
    token = stack.user_token(rick) if who == "owner" else stack.olivia()
    payload = ask(stack, rick.name, token=token).json
    public = {"success", "username", "status"}
    about = public | {"email", "canBeMailed", "reason", "reviewedAt", "banExpiresAt", "reapplyAt"}
    assert payload.keys() == about
    assert (payload["email"], payload["reason"], payload["banExpiresAt"]) == (rick.email, "an ugly name", None)
    assert payload["reviewedAt"] > 1_700_000_000_000


def test_a_name_nobody_has_is_not_found(stack: Stack) -> None:
    query = {"username": stack.newcomer("nobody").name, "language": "zh"}
    reply = stack.get("/api/review/status", query)
    assert_refused(reply, 404, "user_not_found", field="username", language="zh")


def test_an_owners_answer_is_in_the_language_of_the_registration(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh")
    reply = stack.get("/api/review/status", {"username": "nobody_at_all"}, token=stack.user_token(alice))
    assert_refused(reply, 404, "user_not_found", field="username", language="zh")
