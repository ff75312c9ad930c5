"""POST /api/user/password: users who know their password set a new one."""

import pytest

from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.our_tables import everything_kept
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("mariadb")

NEW = "a-new-secret-1"


def change(stack: Stack, token: str | None, current: str, new: str, **fields: object) -> Reply:
    body = {"currentPassword": current, "newPassword": new, **fields}
    return stack.post("/api/user/password", body, token=token)


def test_alice_changes_her_password_here_and_in_the_game(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = change(stack, stack.user_token(alice), alice.password, NEW)
    assert (reply.status, reply.json) == (
        200,
        {"success": True, "message": TRANSLATIONS.text("message.password_changed", "en"), "warnings": []},
    )
    assert stack.login(alice).status == 401
    assert stack.login(alice, NEW).status == 200
    assert stack.authme.login(alice.name, NEW)
    assert not stack.authme.login(alice.name, alice.password)
    assert stack.sync()["updated"] == 0, "both sides agree already"
    [entry] = stack.audits(alice, "user.password_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    for password in (alice.password, NEW):
        assert password not in everything_kept(stack, alice)


def test_an_adopted_player_may_change_it(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    stack.sync()
    stack.decides("approve", bob)
    assert change(stack, stack.user_token(bob), bob.password, NEW).status == 200
    assert stack.authme.login(bob.name, NEW)


def test_it_refuses_a_wrong_current_password(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    for wrong in ("not-the-password", "", "x" * 257, "x" * 6_000, "pässword"):
        reply = change(stack, token, wrong, NEW, language="zh")
        assert_refused(reply, 422, "wrong_password", field="currentPassword", language="zh")
    assert change(stack, token, alice.password, NEW).status == 200, "and the session stays"


def test_authmes_rules_hold(stack: Stack) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    faults = {"x" * 6_000: "too_long", "pass word": "forbidden_characters", alice.name: "same_as_username"}
    for new, fault in faults.items():
        reply = change(stack, token, alice.password, new, language="zh")
        payload = assert_refused(reply, 422, "invalid_password", field="newPassword", language="zh")
        assert payload["fault"] == fault
    assert stack.login(alice).status == 200


def test_wrong_ones_delay_as_failed_logins_do(stack: Stack) -> None:
    """A thief with a session guesses no faster than one without. The owner's home has a counter of its own."""
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    replies = [guess(stack, token, "198.51.100.1") for _try in range(7)]
    assert [reply.status for reply in replies] == [422] * 6 + [429]
    assert_refused(replies[-1], 429, "rate_limited")
    assert change(stack, token, alice.password, NEW).status == 200


def guess(stack: Stack, token: str, client: str) -> Reply:
    body = {"currentPassword": "not-the-password", "newPassword": NEW}
    return stack.post("/api/user/password", body, token=token, headers={"X-Forwarded-For": client})


# --- Other hosts ---


def test_the_change_waits_for_a_busy_authme(make_stack: MakeStack) -> None:
    """AuthMe's file stays locked for longer than the request waits: the change is saved for later, with a warning."""
    patient = make_stack(config={"database": {"busy_timeout": "200 ms"}})
    alice: Person = patient.approved("alice")
    token = patient.user_token(alice)
    with file_busy(patient, "IMMEDIATE"):
        reply = change(patient, token, alice.password, NEW)
    assert (reply.status, reply.json["warnings"]) == (200, ["player_pending"])
    patient.sync()
    assert patient.authme.login(alice.name, NEW)
