"""Olivia rejects: the applicant hears why, and nobody plays under the name."""

from functools import partial

from tests.support.decisions import decide_on_many, somebody
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Village
from tests.support.together import at_once


def test_the_reason_is_stored_mailed_and_shown_to_its_owner(village: Village) -> None:
    alice = village.pending("alice")
    reply = village.decides("reject", alice, reason="  an impolite name  ")
    assert reply.json == {
        "success": True,
        "message": f"{alice.name} was rejected.",
        "username": alice.name,
        "status": "rejected",
    }

    assert village.user(alice)["reason"] == "an impolite name"
    assert village.user(alice)["reviewedBy"] == "Olivia"
    letter = village.smtp.wait_for(alice.email, 2)
    assert "not been accepted" in letter.text
    assert "an impolite name" in letter.text

    login = village.login(alice)
    assert (login.status, login.json["status"]) == (200, "rejected")
    own = village.get("/api/user/status", {"username": alice.name}, token=login.json["token"])
    assert own.json["data"]["reason"] == "an impolite name"
    assert "reason" not in village.get("/api/user/status", {"username": alice.name}).json["data"]


def test_without_a_reason_there_is_none(village: Village) -> None:
    for nothing in (None, "", "   "):
        alice = village.pending("alice")
        village.decides("reject", alice, reason=nothing)
        assert village.user(alice)["reason"] is None
        assert "$reason" not in village.smtp.wait_for(alice.email, 2).text


def test_no_trick_in_a_reason_reaches_the_mails_headers(village: Village) -> None:
    alice = village.pending("alice")
    trick = "one\r\nBcc: mallory@example.org\r\n\r\n<script>alert(1)</script>\u202etwo $link ${username}"
    village.decides("reject", alice, reason=trick)
    letter = village.smtp.wait_for(alice.email, 2)
    assert letter.recipients == (alice.email,)
    assert letter.message["Bcc"] is None
    assert letter.html is not None
    assert "<script>" not in letter.html
    assert "\u202e" not in letter.text
    assert "$link ${username}" in letter.text


def test_no_row_is_made_and_a_strangers_stays_locked(village: Village) -> None:
    alice, bob = village.pending("alice"), village.pending("bob")
    village.authme.register(bob.name, "a strangers one")
    village.decides("reject", alice)
    village.decides("reject", bob)

    assert village.authme.find(alice.name) is None
    assert not village.authme.login(bob.name, "a strangers one")
    village.sync()
    assert village.user(bob)["plugin"] == "conflict"
    assert not village.authme.login(bob.name, "a strangers one")


def test_a_silent_rejection_is_not_mailed(village: Village) -> None:
    alice, bob = village.pending("alice"), village.pending("bob")
    village.decides("reject", alice, silent=True)
    village.decides("reject", bob)
    village.smtp.wait_for(bob.email, 2)
    assert len(village.smtp.letters_to(alice.email)) == 1


def test_the_name_is_held_for_a_while_the_email_is_not(village: Village) -> None:
    alice = somebody(village, "rejected")
    again = Person(alice.name, f"second.{alice.email}", alice.password)
    assert_refused(village.register(again), 409, "username_taken", field="username")
    better = village.newcomer("better")
    assert village.register(Person(better.name, alice.email, alice.password)).status == 201
    village.decides("approve", better)

    our_database(village).execute(
        "UPDATE regsvc_user SET reviewed_at = ? WHERE username_key = ?", (ago(hours=25), alice.key)
    )
    assert village.register(again).status == 201
    assert len(village.audits(alice, "user.rejected")) == 1


def test_only_who_waits_can_be_rejected_among_many(village: Village) -> None:
    waiting, playing, banned = (somebody(village, status) for status in ("pending", "approved", "banned"))
    results = decide_on_many(village, "reject", [waiting.name, playing.name, banned.name], reason="no more room")
    assert [result["success"] for result in results] == [True, False, False]
    assert [result.get("status") for result in results] == ["rejected", "approved", "banned"]
    assert [result.get("code") for result in results] == [None, "wrong_status", "wrong_status"]
    assert village.user(waiting)["reason"] == "no more room"
    assert village.authme.login(playing.name, playing.password)


def test_of_fifty_rejections_one_has_an_effect(village: Village) -> None:
    alice, token = village.pending("alice"), village.olivia()
    body = {"username": alice.name}
    replies = at_once([partial(village.post, "/api/admin/user/reject", body, token=token)] * 50)
    assert sorted((reply.status, reply.code) for reply in replies) == [(200, None), *[(409, "wrong_status")] * 49]
    assert len(village.audits(alice, "user.rejected")) == 1


def test_an_operators_equal_cannot_reject_him(village: Village, operators: Operators) -> None:
    olaf = village.pending("olaf")
    operators.appoint(olaf, level=4)
    assert_refused(village.decide("reject", olaf), 409, "protected_operator", field="username")
    reply = village.decide("reject", olaf, language="zh")
    assert_refused(reply, 409, "protected_operator", field="username", language="zh")
    assert village.status(olaf) == "pending"

    operators.appoint(olaf, level=3)
    assert village.decide("reject", olaf).status == 200
