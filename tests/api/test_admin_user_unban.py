"""Olivia lifts a ban: the player can join with their current password."""

from functools import partial

import pytest

from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("mariadb")


def test_the_row_is_as_it_was_byte_for_byte(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert stack.authme.login(bob.name, bob.password)
    stack.authme.quit(bob.name)
    before = stack.authme.get(bob.name)
    stack.decides("ban", bob, reason="griefing")

    reply = stack.decides("unban", bob, reason="it was somebody else")

    assert (reply.json["status"], reply.json["message"]) == ("approved", f"{bob.name} was unbanned.")
    assert stack.authme.get(bob.name) == before
    user = stack.user(bob)
    assert (user["plugin"], user["reason"], user["banExpiresAt"]) == ("synced", "it was somebody else", None)
    letter = stack.smtp.wait_for(bob.email, 4)
    assert "it was somebody else" in letter.text
    assert stack.login(bob).status == 200


def test_a_ban_typed_in_sql_may_be_lifted_here(stack: Stack) -> None:
    bob = stack.approved("bob")
    our_database(stack).execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key = ?", (bob.key,))
    stack.decides("unban", bob)
    assert stack.authme.login(bob.name, bob.password)
    assert [(entry["action"], entry["operator"]) for entry in stack.audits(bob)[:2]] == [
        ("user.unbanned", "Olivia"),
        ("user.banned", "sql"),
    ]


def test_a_status_typed_against_the_rules_does_not_widen_them(stack: Stack) -> None:
    bob = stack.approved("bob")
    our_database(stack).execute("UPDATE regsvc_user SET status = 'pending' WHERE username_key = ?", (bob.key,))
    payload = assert_refused(stack.decide("reject", bob), 409, "wrong_status")
    assert payload["status"] == "approved"
    stack.sync()
    assert stack.status(bob) == "approved"
    assert [entry["operator"] for entry in stack.audits(bob, "sync.edit_refused")] == ["sql"]


def test_a_password_changed_in_the_game_during_the_ban_counts(stack: Stack) -> None:
    """By `authme password` from the console, say: the row is locked again, and the newest one is kept."""
    bob = stack.approved("bob")
    stack.decides("ban", bob)
    stack.authme.set_password(bob.name, "newer-one")
    assert stack.authme.login(bob.name, "newer-one")
    stack.sync()
    assert not stack.authme.login(bob.name, "newer-one")
    stack.decides("unban", bob)
    assert stack.authme.login(bob.name, "newer-one")
    assert stack.login(bob, "newer-one").status == 200
    assert stack.login(bob).status == 401


def test_ban_and_unban_at_once_end_in_one_of_them_on_both_sides(stack: Stack) -> None:
    bob = stack.approved("bob")
    replies = at_once([partial(stack.decide, name, bob) for name in ("ban", "unban") * 15])
    assert {reply.status for reply in replies} == {200, 409}
    stack.sync()
    status = stack.status(bob)
    assert stack.authme.login(bob.name, bob.password) == (status == "approved")
    assert stack.user(bob)["plugin"] == ("synced" if status == "approved" else "locked")
    changes = len(stack.audits(bob, "user.banned")) + len(stack.audits(bob, "user.unbanned"))
    assert changes == sum(reply.status == 200 for reply in replies)


def test_an_equal_may_lift_an_operators_ban(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar", level=1)
    stack.decides("ban", oscar)
    operators.appoint(oscar, level=4)
    assert stack.decide("unban", oscar).status == 200
