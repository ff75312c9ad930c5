"""A player's own account in existing front ends: a new e-mail address by code alone, a password without a logout."""

import pytest

from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import Person, Stack, find_code, has_code

pytestmark = pytest.mark.one_database("sqlite")


def code_for(stack: Stack, email: str, token: str | None) -> str:
    """Request a code as the page does: without a purpose, with the token it has."""
    letters = sum(map(has_code, stack.smtp.letters_to(email)))
    assert stack.post("/api/verify/send", {"email": email, "language": "en"}, token=token).json["success"] is True
    return find_code(stack.smtp.wait_for(email, letters + 1, counts=has_code).text)


def update(stack: Stack, token: str, email: str, **fields: object) -> Reply:
    return stack.post("/api/user/update", {"email": email, "language": "en", **fields}, token=token)


def age_sessions(stack: Stack, person: Person, **period: float) -> None:
    """Move the person's logins into the past."""
    our_database(stack).execute(
        "UPDATE regsvc_session SET created_at = ? WHERE user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)",
        (ago(**period), person.key),
    )


def test_alice_changes_her_address_with_the_code_alone(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new = stack.user_token(alice), f"new.{alice.email}"
    reply = update(stack, token, new, code=code_for(stack, new, token))
    assert (reply.status, reply.json["success"], reply.json["email"]) == (200, True, new)
    assert stack.user(alice)["email"] == new
    assert new not in stack.smtp.wait_for(alice.email, len(stack.smtp.letters_to(alice.email))).text
    stack.smtp.wait_for(alice.email, 1, counts=lambda letter: "changed" in letter.subject)
    assert "user.email_changed" in [entry["action"] for entry in stack.audits(alice)]


def test_an_old_login_is_not_enough(stack: Stack) -> None:
    bob = stack.approved("bob")
    token, new = stack.user_token(bob), f"new.{bob.email}"
    code = code_for(stack, new, token)
    age_sessions(stack, bob, minutes=16)
    told = assert_refused_as_200(update(stack, token, new, code=code), "login_too_old")
    assert "log in again" in told["message"]
    assert stack.user(bob)["email"] == bob.email
    assert update(stack, token, new, code=code, currentPassword=bob.password).json["success"] is True


def test_an_operators_token_alone_changes_no_address(stack: Stack) -> None:
    """Their pages put it into the address of the WebSocket, which proxies log."""
    oscar, operators = stack.approved("oscar"), Operators(stack)
    as_user, new = stack.user_token(oscar), f"new.{oscar.email}"
    operators.appoint(oscar)
    as_admin = stack.user_token(oscar)
    for token in (as_user, as_admin):
        told = assert_refused_as_200(update(stack, token, new, code=code_for(stack, new, token)), "login_too_old")
        assert "Operators need their password" in told["message"]
    code = code_for(stack, new, as_admin)
    assert update(stack, as_admin, new, code=code, currentPassword=oscar.password).json["success"] is True


def test_a_code_is_for_what_it_was_requested_for(stack: Stack) -> None:
    bob = stack.approved("bob")
    token, new = stack.user_token(bob), f"new.{bob.email}"
    of_a_stranger = code_for(stack, new, None)
    assert_refused_as_200(update(stack, token, new, code=of_a_stranger), "invalid_code")
    assert_refused_as_200(update(stack, token, f"other.{bob.email}", code=code_for(stack, new, token)), "invalid_code")
    named = stack.post("/api/verify/send", {"email": f"third.{bob.email}", "purpose": "register"}, token=token)
    assert named.json["success"] is True
    code = find_code(stack.smtp.wait_for(f"third.{bob.email}", 1, counts=has_code).text)
    assert_refused_as_200(update(stack, token, f"third.{bob.email}", code=code), "invalid_code")


def test_without_a_code_a_page_can_say_what_is_missing(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    for fields in ({}, {"code": ""}, {"code": "  "}):
        told = assert_refused_as_200(update(stack, token, f"new.{alice.email}", **fields), "code_required")
        assert "code" in told["message"]
        kept = update(stack, token, alice.email.upper(), **fields)
        assert (kept.json["success"], kept.json["email"]) == (True, alice.email)
    assert stack.user(alice)["email"] == alice.email
    assert_refused_as_200(update(stack, token, "nonsense"), "invalid_email")


def test_a_new_password_keeps_the_session_that_asked(stack: Stack) -> None:
    alice = stack.approved("alice")
    here, elsewhere = stack.user_token(alice), stack.user_token(alice)
    body = {"currentPassword": alice.password, "newPassword": "another-secret", "language": "en"}
    reply = stack.post("/api/user/password", body, token=here)
    assert (reply.json["success"], "everywhere else" in reply.json["message"]) == (True, True)
    status = {"username": alice.name}
    assert "reason" in stack.get("/api/user/status", status, token=here).json["data"]
    assert_refused(stack.get("/api/user/status", status, token=elsewhere), 401, "unauthorized")
    assert_refused_as_200(stack.login(alice), "bad_credentials")
    assert stack.login(alice, "another-secret").json["success"] is True
    body = {"password": "set-by-olivia", "username": alice.name}
    assert stack.post("/api/admin/user/password", body, token=stack.olivia()).json["success"] is True
    assert_refused(stack.get("/api/user/status", status, token=here), 401, "unauthorized")


def test_a_refused_password_ends_nothing(stack: Stack) -> None:
    bob = stack.approved("bob")
    here, elsewhere = stack.user_token(bob), stack.user_token(bob)
    wrong = {"currentPassword": "wrong", "newPassword": "another-secret"}
    assert_refused_as_200(stack.post("/api/user/password", wrong, token=here), "wrong_password")
    for token in (here, elsewhere):
        assert stack.get("/api/user/status", {"username": bob.name}, token=token).status == 200
