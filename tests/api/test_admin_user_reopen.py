"""POST /api/admin/user/reopen: an approval noticed too late needs neither a ban nor a deletion."""

import pytest

from tests.api.test_admin_token_create import make_token
from tests.api.test_admin_user_role import with_role
from tests.support.command_line import companion
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.together import at_once


def test_bob_waits_again_and_comes_back(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert stack.authme.login(bob.name, bob.password)
    stack.authme.quit(bob.name)
    session = stack.user_token(bob)
    stack.smtp.wait_for(bob.email, 2)  # the code and the approval

    reply = stack.decide("reopen", bob, reason="Which Bob are you?")

    assert (reply.status, stack.status(bob)) == (200, "pending")
    assert not stack.authme.login(bob.name, bob.password)
    assert_refused(stack.get("/api/user/totp", token=session), 401, "unauthorized")
    [entry] = stack.audits(bob, "user.reopened")
    assert entry["detail"] == {"statusBefore": "approved", "reason": "Which Bob are you?"}
    queue = stack.get("/api/admin/users", {"status": "pending", "search": bob.name}, token=stack.olivia()).json
    assert [user["username"] for user in queue["users"]] == [bob.name]
    stack.sync()
    assert stack.status(bob) == "pending"
    assert len(stack.smtp.letters_to(bob.email)) == 2

    stack.decides("approve", bob)

    assert stack.authme.login(bob.name, bob.password)


def test_rick_is_mailed_if_rita_asks_for_it(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick)
    _rita, token = with_role(stack, "reviewer")
    body = {"username": rick.name, "silent": False, "reason": "We read it again"}
    assert stack.post("/api/admin/user/reopen", body, token=token).status == 200
    letter = stack.smtp.wait_for(rick.email, 3)  # after the code and the rejection
    assert "being reviewed again" in letter.subject
    assert "We read it again" in letter.text


@pytest.mark.parametrize("who", ["reviewer", "token"])
def test_who_may_not_ban_takes_nobody_out_of_the_game(stack: Stack, who: str) -> None:
    bob, rick = stack.approved("bob"), stack.pending("rick")
    stack.decides("reject", rick)
    if who == "reviewer":
        _rita, token = with_role(stack, "reviewer")
    else:
        token = make_token(stack, "review-bot", "users.read", "users.review")

    refused = stack.post("/api/admin/user/reopen", {"username": bob.name}, token=token)
    assert assert_refused(refused, 403, "forbidden")["permission"] == "users.ban"
    reply = stack.post("/api/admin/user/reopen", {"usernames": [bob.name, "Nobody", rick.name]}, token=token)

    told = [(it["success"], it.get("code"), it.get("permission")) for it in reply.json["results"]]
    assert told == [(False, "forbidden", "users.ban"), (False, "user_not_found", None), (True, None, None)]
    assert (stack.status(bob), stack.status(rick)) == ("approved", "pending")
    assert_refused(stack.post("/api/admin/user/reject", {"username": bob.name}, token=token), 409, "wrong_status")
    assert stack.authme.login(bob.name, bob.password)
    assert stack.audits(bob, "user.reopened") == []


def test_kurt_who_may_ban_reopens_bob(stack: Stack) -> None:
    bob = stack.approved("bob")
    _kurt, token = with_role(stack, "moderator", "kurt")
    assert stack.post("/api/admin/user/reopen", {"username": bob.name}, token=token).status == 200
    assert stack.status(bob) == "pending"


def test_forty_who_reopen_and_ban_end_in_one_of_both(stack: Stack) -> None:
    bob, olivia = stack.approved("bob"), stack.olivia()
    calls = [
        lambda name=name: stack.post(f"/api/admin/user/{name}", {"username": bob.name}, token=olivia)
        for name in ("reopen", "ban")
    ]
    replies = at_once(calls * 20)
    assert {reply.status for reply in replies} <= {200, 409}
    assert len([reply for reply in replies[::2] if reply.status == 200]) <= 1
    assert stack.status(bob) == "banned"


def test_the_command_line_reopens(stack: Stack) -> None:
    bob = stack.approved("bob")
    done = companion("users", "reopen", bob.name, "--reason", "twice", config=stack.daemon.config_file)
    assert (done.status, stack.status(bob)) == (0, "pending")
