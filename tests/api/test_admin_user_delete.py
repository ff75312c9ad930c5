"""Olivia deletes: user, sessions and player are gone, the history stays, and the name is free."""

import pytest

from tests.support.decisions import STATUSES, person_with_status
from tests.support.our_tables import our_database
from tests.support.peers.smtp import Letter
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack

OF_THE_USER = ("regsvc_session", "regsvc_known_client", "regsvc_link")


def rows_of(stack: Stack, table: str, user_id: int) -> int:
    [counted] = our_database(stack).query(f"SELECT COUNT(*) AS n FROM {table} WHERE user_id = ?", (user_id,))
    return int(counted["n"])


def id_of(stack: Stack, person: Person) -> int:
    [user] = our_database(stack).query("SELECT id FROM regsvc_user WHERE username_key = ?", (person.key,))
    return int(user["id"])


def is_about_deletion(letter: Letter) -> bool:
    return "was deleted" in letter.subject


@pytest.mark.every_database
@pytest.mark.parametrize("status", STATUSES)
def test_nothing_of_the_user_is_left_but_the_history(stack: Stack, status: str) -> None:
    person = person_with_status(stack, status)
    token = stack.user_token(person) if status != "banned" else None
    stack.decide("password", person)
    user_id = id_of(stack, person)

    reply = stack.decides("delete", person, reason="asked to be forgotten")

    assert (reply.json["status"], reply.json["message"]) == ("deleted", f"{person.name} was deleted.")
    assert stack.status(person) is None
    assert stack.authme.find(person.name) is None
    assert stack.post("/api/logout", {}, token=token).status == 401
    assert_refused(stack.login(person), 401, "bad_credentials")
    assert [rows_of(stack, table, user_id) for table in OF_THE_USER] == [0, 0, 0]
    assert rows_of(stack, "regsvc_review", user_id) == (1 if status == "pending" else 2)
    [entry] = stack.audits(person, "user.deleted")
    assert entry["operator"] == "Olivia"
    assert entry["detail"] == {"statusBefore": status, "reason": "asked to be forgotten"}


@pytest.mark.parametrize("silent", [False, True])
def test_the_user_is_told_the_reason_unless_it_is_silent(stack: Stack, silent: bool) -> None:
    bob, carol = stack.approved("bob"), stack.approved("carol")
    stack.decides("delete", bob, reason="second account", silent=silent)
    stack.decides("delete", carol)
    stack.smtp.wait_for(carol.email, counts=is_about_deletion)
    if silent:
        assert not [letter for letter in stack.smtp.letters_to(bob.email) if is_about_deletion(letter)]
    else:
        assert "second account" in stack.smtp.wait_for(bob.email, counts=is_about_deletion).text


def test_waiting_mails_give_way_to_that_of_the_deletion(stack: Stack) -> None:
    bob = stack.pending("bob", password=None)
    stack.smtp.hold()
    stack.decides("approve", bob)
    stack.decides("delete", bob)
    stack.smtp.release()
    witness = stack.approved("witness")
    stack.smtp.wait_for(witness.email, 2)
    stack.smtp.wait_for(bob.email, counts=is_about_deletion)
    others = [letter.subject for letter in stack.smtp.letters_to(bob.email) if not is_about_deletion(letter)]
    assert others[2:] == []
