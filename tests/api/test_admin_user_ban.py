"""Olivia bans: at once and everywhere, for a time or for good; and may change her mind about it."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.brief_outage import Outage, assert_synced, file_busy, file_missing, table_missing
from tests.support.decisions import decide_as, decide_on_many, somebody
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, Person, Village
from tests.support.together import at_once

HOUR = 3_600_000


def in_hours(hours: int) -> int:
    return round(time.time() * 1000) + hours * HOUR


def let_ban_end(village: Village, person: Person) -> None:
    """The ban's end was a second ago."""
    our_database(village).execute(
        "UPDATE regsvc_user SET ban_expires_at = ? WHERE username_key = ?", (ago(seconds=1), person.key)
    )


# --- What a ban does ---


def test_it_reaches_the_game_and_the_sessions_before_the_reply(village: Village) -> None:
    bob = village.approved("bob")
    token, before = village.user_token(bob), village.authme.get(bob.name)

    reply = village.decides("ban", bob, reason="griefing")

    assert (reply.json["status"], reply.json["message"]) == ("banned", f"{bob.name} was banned.")
    assert "warnings" not in reply.json
    row = village.authme.get(bob.name)
    assert row["password"].startswith("!locked!")
    assert row | {"password": before["password"]} == before
    assert not village.authme.login(bob.name, bob.password)
    assert village.post("/api/logout", {}, token=token).status == 401
    told = assert_refused(village.login(bob), 403, "banned")
    assert told["reason"] == "griefing"
    assert "banExpiresAt" not in told
    user = village.user(bob)
    assert (user["plugin"], user["banExpiresAt"], user["reason"]) == ("locked", None, "griefing")


def test_it_is_mailed_with_reason_and_end(village: Village) -> None:
    bob, alice = village.approved("bob"), village.pending("alice", language="zh")
    village.decides("ban", bob, reason="griefing", expiresAt=4_102_444_800_000)
    letter = village.smtp.wait_for(bob.email, 3)
    assert "banned" in letter.subject
    assert "griefing" in letter.text
    assert "2100-01-01 00:00 UTC" in letter.text

    village.decides("ban", alice, silent=True)
    village.decides("ban", village.approved("witness"))
    assert len(village.smtp.letters_to(alice.email)) == 1


def test_a_stranger_is_told_the_status_and_nothing_else(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob, reason="griefing", expiresAt=in_hours(1))
    told = village.get("/api/user/status", {"username": bob.name}).json["data"]
    assert told == {"status": "banned", "registered": True, "username": bob.name}
    seen_by_olivia = village.get("/api/user/status", {"username": bob.name}, token=village.olivia()).json["data"]
    assert seen_by_olivia["reason"] == "griefing"


def test_a_banned_player_cannot_come_back_by_registering(village: Village) -> None:
    bob = somebody(village, "banned")
    again = Person(bob.name, f"second.{bob.email}", bob.password)
    assert_refused(village.register(again), 409, "username_taken", field="username")
    village.authme.register(bob.name, "another one")
    village.sync()
    assert not village.authme.login(bob.name, "another one")


# --- Who is only a player yet ---


def test_a_name_that_only_authme_knows_is_adopted_first(village: Village) -> None:
    steve = village.newcomer("steve")
    village.authme.register(steve.name, steve.password, email=steve.email)

    village.decides("ban", steve, reason="griefing")

    assert not village.authme.login(steve.name, steve.password)
    assert [entry["action"] for entry in village.audits(steve)][::-1][0] == "user.adopted"
    assert village.audits(steve, "user.banned")[0]["operator"] == "Olivia"
    village.decides("unban", steve)
    assert village.authme.login(steve.name, steve.password)


# --- Another ban on top ---


def test_another_reason_or_end_changes_a_ban(village: Village) -> None:
    bob, end = village.approved("bob"), in_hours(1)
    village.decides("ban", bob, reason="griefing", expiresAt=end)

    reply = village.decides("ban", bob, reason="griefing twice")
    assert (reply.json["status"], reply.json["message"]) == ("banned", f"The ban of {bob.name} was changed.")
    assert ban_of(village, bob) == ("griefing twice", end)

    village.decides("ban", bob, expiresAt=end + HOUR)
    assert ban_of(village, bob) == ("griefing twice", end + HOUR)

    village.decides("ban", bob, expiresAt=None)
    assert ban_of(village, bob) == ("griefing twice", None)

    village.decides("ban", bob, reason="once more", expiresAt=end)
    assert ban_of(village, bob) == ("once more", end)
    details = [entry["detail"] for entry in village.audits(bob, "user.banned")]
    assert len(details) == 5
    assert [detail["statusBefore"] for detail in details] == ["banned"] * 4 + ["approved"]
    village.smtp.wait_for(bob.email, 7)


def ban_of(village: Village, person: Person) -> tuple[str | None, int | None]:
    user = village.user(person)
    return user["reason"], user["banExpiresAt"]


@pytest.mark.parametrize("first", [{"reason": "griefing"}, {"reason": "griefing", "expiresAt": 4_102_444_800_000}, {}])
def test_a_ban_that_says_nothing_new_is_refused(village: Village, first: dict[str, Any]) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob, **first)
    before = village.user(bob), village.audits(bob)
    for same in (first, {}, {"reason": first.get("reason")}, {"reason": " "}):
        told = assert_refused(village.decide("ban", bob, **same), 409, "wrong_status")
        assert told["status"] == "banned"
    assert (village.user(bob), village.audits(bob)) == before


# --- The end of a ban ---


@pytest.mark.parametrize("status", ["approved", "pending", "rejected"])
def test_a_ban_that_is_over_goes_back_to_where_it_came_from(village: Village, status: str) -> None:
    person = somebody(village, status, password="secret-of-his-own")
    village.decides("ban", person, reason="cool down", expiresAt=in_hours(1))
    village.decides("ban", person, reason="cool down longer", expiresAt=in_hours(2))
    village.sync()
    assert village.status(person) == "banned"

    let_ban_end(village, person)
    village.sync()

    user = village.user(person)
    assert (user["status"], user["banExpiresAt"], user["reviewedBy"]) == (status, None, "sync")
    assert village.audits(person, "user.unbanned")[0]["operator"] == "sync"
    assert village.authme.login(person.name, "secret-of-his-own") == (status == "approved")


def test_a_login_does_not_wait_for_the_sync_to_end_a_ban(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob, expiresAt=in_hours(1))
    let_ban_end(village, bob)
    assert village.login(bob).status == 200
    assert village.status(bob) == "approved"
    assert village.authme.login(bob.name, bob.password)


def test_a_new_ban_after_the_end_of_one_is_a_new_ban(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob, reason="first", expiresAt=in_hours(1))
    let_ban_end(village, bob)
    village.decides("ban", bob)
    assert village.audits(bob, "user.banned")[0]["detail"] == {"statusBefore": "approved"}


@pytest.mark.parametrize("end", [0, 1_000, -1, 253_402_300_800_000, "tomorrow", 1.5, True, [1]])
def test_an_end_has_to_be_a_time_to_come(village: Village, end: object) -> None:
    bob = village.approved("bob")
    assert_refused(village.decide("ban", bob, expiresAt=end), 422, "invalid_field", field="expiresAt")
    assert village.status(bob) == "approved"
    assert village.authme.login(bob.name, bob.password)


# --- Operators ---


def test_nobody_bans_himself_or_an_equal(village: Village, operators: Operators) -> None:
    high, equal, low = (operators.new("oscar", level=level) for level in (3, 2, 1))
    middle = operators.new("otto", level=2)
    token = village.admin_token(middle.name, middle.password)

    for person in (high, equal, middle):
        assert_refused(
            decide_as(village, token, "ban", person.name.upper()), 409, "protected_operator", field="username"
        )
        assert village.status(person) == "approved"
        assert village.authme.login(person.name, person.password)
    own = decide_as(village, village.olivia(), "ban", OPERATOR, language="zh")
    assert_refused(own, 409, "protected_operator", field="username", language="zh")
    assert decide_as(village, token, "ban", low.name).status == 200
    assert not village.authme.login(low.name, low.password)


def test_a_dismissed_operator_is_protected_no_more(village: Village, operators: Operators) -> None:
    oscar, otto = operators.new("oscar", level=4), operators.new("otto", level=1)
    token = village.admin_token(otto.name, otto.password)
    assert decide_as(village, token, "ban", oscar.name).status == 409
    operators.dismiss(oscar)
    assert decide_as(village, token, "ban", oscar.name).status == 200


def test_an_equal_among_many_is_left_out(village: Village, operators: Operators) -> None:
    oscar, bob = operators.new("oscar"), village.approved("bob")
    results = decide_on_many(village, "ban", [oscar.name, OPERATOR, bob.name], reason="all of you")
    assert [result.get("code") for result in results] == ["protected_operator", "protected_operator", None]
    assert village.get("/api/admin/verify", token=village.olivia()).status == 200


# --- At once ---


def test_of_fifty_bans_one_has_an_effect(village: Village, operators: Operators) -> None:
    oscar, bob = operators.new("oscar"), village.approved("bob")
    tokens = [village.olivia(), village.admin_token(oscar.name, oscar.password)]
    bans = [partial(decide_as, village, token, "ban", bob.name, reason="griefing") for token in tokens * 25]

    replies = at_once(bans)

    assert sorted((reply.status, reply.code) for reply in replies) == [(200, None), *[(409, "wrong_status")] * 49]
    assert len(village.audits(bob, "user.banned")) == 1
    assert not village.authme.login(bob.name, bob.password)
    village.decides("unban", bob)
    assert village.smtp.wait_for(bob.email, 4).subject != village.smtp.wait_for(bob.email, 3).subject
    assert len(village.smtp.letters_to(bob.email)) == 4
    assert village.authme.login(bob.name, bob.password)


def test_a_ban_meets_a_password_change_in_the_game(village: Village) -> None:
    """Whichever comes first: the player is out, and gets in with the newest password after the ban."""
    for _round in range(5):
        bob = village.approved("bob")
        assert village.authme.login(bob.name, bob.password)
        both: list[Callable[[], object]] = [
            partial(village.decides, "ban", bob),
            partial(village.authme.set_password, bob.name, "newer-one"),
        ]
        at_once(both)
        village.sync()
        assert not village.authme.login(bob.name, "newer-one")
        village.decides("unban", bob)
        assert village.authme.login(bob.name, "newer-one")


# --- AuthMe's table is away ---


def test_while_the_table_is_missing_the_ban_stands_and_the_lock_follows(village: Village) -> None:
    bob = village.approved("bob")
    token = village.user_token(bob)
    with table_missing(village):
        reply = village.decides("ban", bob, reason="griefing")
        assert (reply.json["status"], reply.json["warnings"]) == ("banned", ["player_pending"])
        assert village.post("/api/logout", {}, token=token).status == 401
    assert_synced(village, locked=1)
    assert_is_out_after_one_ban(village, bob)


@pytest.mark.parametrize("outage", [file_missing, file_busy])
def test_while_the_file_is_away_the_ban_stands_and_the_lock_follows(impatient: Village, outage: Outage) -> None:
    bob = impatient.approved("bob")
    with outage(impatient):
        reply = impatient.decides("ban", bob, reason="griefing")
        assert (reply.json["status"], reply.json["warnings"]) == ("banned", ["player_pending"])
        assert_refused(impatient.decide("ban", bob), 409, "wrong_status")
    assert_synced(impatient, locked=1)
    assert_is_out_after_one_ban(impatient, bob)


def assert_is_out_after_one_ban(village: Village, person: Person) -> None:
    assert not village.authme.login(person.name, person.password)
    assert village.user(person)["plugin"] == "locked"
    assert len(village.audits(person, "user.banned")) == 1
