"""Olivia lifts a ban: the player gets in with the password that is his by now."""

from functools import partial

import pytest

from tests.support.brief_outage import Outage, assert_synced, file_busy, file_missing, table_missing
from tests.support.decisions import decide_as, decide_on_many, somebody
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Village
from tests.support.together import at_once


def test_the_row_is_as_it_was_byte_for_byte(village: Village) -> None:
    bob = village.approved("bob")
    assert village.authme.login(bob.name, bob.password)
    village.authme.quit(bob.name)
    before = village.authme.get(bob.name)
    village.decides("ban", bob, reason="griefing")

    reply = village.decides("unban", bob, reason="it was somebody else")

    assert (reply.json["status"], reply.json["message"]) == ("approved", f"{bob.name} was unbanned.")
    assert village.authme.get(bob.name) == before
    user = village.user(bob)
    assert (user["plugin"], user["reason"], user["banExpiresAt"]) == ("synced", "it was somebody else", None)
    letter = village.smtp.wait_for(bob.email, 4)
    assert "it was somebody else" in letter.text
    assert village.login(bob).status == 200


def test_sessions_from_before_the_ban_stay_over(village: Village) -> None:
    bob = village.approved("bob")
    token = village.user_token(bob)
    village.decides("ban", bob)
    village.decides("unban", bob)
    assert village.post("/api/logout", {}, token=token).status == 401


@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_whoever_was_never_approved_is_so_now(village: Village, status: str) -> None:
    person = somebody(village, status)
    village.decides("ban", person)
    village.decides("unban", person)
    assert village.status(person) == "approved"
    assert village.authme.login(person.name, person.password)


def test_a_ban_typed_in_sql_may_be_lifted_here(village: Village) -> None:
    bob = village.approved("bob")
    our_database(village).execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key = ?", (bob.key,))
    village.decides("unban", bob)
    assert village.authme.login(bob.name, bob.password)
    assert [(entry["action"], entry["operator"]) for entry in village.audits(bob)[:2]] == [
        ("user.unbanned", "Olivia"),
        ("user.banned", "sql"),
    ]


def test_a_status_typed_against_the_rules_does_not_widen_them(village: Village) -> None:
    bob = village.approved("bob")
    our_database(village).execute("UPDATE regsvc_user SET status = 'pending' WHERE username_key = ?", (bob.key,))
    told = assert_refused(village.decide("reject", bob), 409, "wrong_status")
    assert told["status"] == "approved"
    village.sync()
    assert village.status(bob) == "approved"
    assert [entry["operator"] for entry in village.audits(bob, "sync.edit_refused")] == ["sql"]


def test_a_password_changed_in_the_game_during_the_ban_counts(village: Village) -> None:
    """By `authme password` from the console, say: the row is locked again, and the newest one is kept."""
    bob = village.approved("bob")
    village.decides("ban", bob)
    village.authme.set_password(bob.name, "newer-one")
    assert village.authme.login(bob.name, "newer-one")
    village.sync()
    assert not village.authme.login(bob.name, "newer-one")
    village.decides("unban", bob)
    assert village.authme.login(bob.name, "newer-one")
    assert village.login(bob, "newer-one").status == 200
    assert village.login(bob).status == 401


def test_silent_sends_no_mail(village: Village) -> None:
    bob, alice = (somebody(village, "banned", name) for name in ("bob", "alice"))
    village.decides("unban", bob, silent=True)
    village.decides("unban", alice)
    village.smtp.wait_for(alice.email, 3)
    assert len(village.smtp.letters_to(bob.email)) == 2


def test_many_are_let_in_at_once(village: Village) -> None:
    banned = [somebody(village, "banned", "bob") for _number in range(3)]
    free = village.approved("alice")
    results = decide_on_many(village, "unban", [*(person.name for person in banned), free.name])
    assert [result.get("code") for result in results] == [None, None, None, "wrong_status"]
    assert [result["status"] for result in results] == ["approved"] * 4
    for person in banned:
        assert village.authme.login(person.name, person.password)


def test_of_fifty_one_has_an_effect(village: Village) -> None:
    bob, token = somebody(village, "banned", "bob"), village.olivia()
    replies = at_once([partial(decide_as, village, token, "unban", bob.name)] * 50)
    assert sorted((reply.status, reply.code) for reply in replies) == [(200, None), *[(409, "wrong_status")] * 49]
    assert len(village.audits(bob, "user.unbanned")) == 1
    assert village.authme.login(bob.name, bob.password)


def test_ban_and_unban_at_once_end_in_one_of_them_on_both_sides(village: Village) -> None:
    bob = village.approved("bob")
    replies = at_once([partial(village.decide, name, bob) for name in ("ban", "unban") * 15])
    assert {reply.status for reply in replies} == {200, 409}
    village.sync()
    status = village.status(bob)
    assert village.authme.login(bob.name, bob.password) == (status == "approved")
    assert village.user(bob)["plugin"] == ("synced" if status == "approved" else "locked")
    changes = len(village.audits(bob, "user.banned")) + len(village.audits(bob, "user.unbanned"))
    assert changes == sum(reply.status == 200 for reply in replies)


def test_an_equal_may_lift_an_operators_ban(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar", level=1)
    village.decides("ban", oscar)
    operators.appoint(oscar, level=4)
    assert village.decide("unban", oscar).status == 200


def test_an_unban_needs_a_ban(village: Village) -> None:
    bob = village.approved("bob")
    told = assert_refused(village.decide("unban", bob, language="zh"), 409, "wrong_status", language="zh")
    assert told["status"] == "approved"


def test_while_the_table_is_missing_the_player_waits(village: Village) -> None:
    bob = somebody(village, "approved", "bob")
    village.decides("ban", bob)
    with table_missing(village):
        reply = village.decides("unban", bob)
        assert (reply.json["status"], reply.json["warnings"]) == ("approved", ["player_pending"])
    assert_synced(village, restored=1)
    assert village.authme.login(bob.name, bob.password)


@pytest.mark.parametrize("outage", [file_missing, file_busy])
def test_while_the_file_is_away_the_player_waits(impatient: Village, outage: Outage) -> None:
    bob = somebody(impatient, "approved", "bob")
    impatient.decides("ban", bob)
    with outage(impatient):
        assert impatient.decides("unban", bob).json["warnings"] == ["player_pending"]
    assert_synced(impatient, restored=1)
    assert impatient.authme.login(bob.name, bob.password)
