"""Decisions that end something: bans, their end, deletions."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.decisions import STATUSES, person_with_status
from tests.support.each import assert_each
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.peers.smtp import Letter
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack
from tests.support.together import at_once

# Olivia bans a user: at once and everywhere, temporarily or permanently; and changes a ban.


HOUR = 3_600_000


def in_hours(hours: int) -> int:
    return round(time.time() * 1000) + hours * HOUR


def let_ban_end(stack: Stack, person: Person) -> None:
    """The ban's end was a second ago."""
    our_database(stack).execute(
        "UPDATE regsvc_user SET ban_expires_at = ? WHERE username_key = ?", (ago(seconds=1), person.key)
    )


# --- What a ban does ---


def test_it_reaches_the_game_and_the_sessions_before_the_reply(stack: Stack) -> None:
    bob = stack.approved("bob")
    token, before = stack.user_token(bob), stack.authme.get(bob.name)

    reply = stack.decides("ban", bob, reason="griefing")

    assert (reply.json["status"], reply.json["message"]) == ("banned", f"{bob.name} was banned.")
    assert "warnings" not in reply.json
    row = stack.authme.get(bob.name)
    assert row["password"].startswith("!locked!")
    assert row | {"password": before["password"]} == before
    assert not stack.authme.login(bob.name, bob.password)
    assert stack.post("/api/logout", {}, token=token).status == 401
    payload = assert_refused(stack.login(bob), 403, "banned")
    assert payload["reason"] == "griefing"
    assert "banExpiresAt" not in payload
    user = stack.user(bob)
    assert (user["plugin"], user["banExpiresAt"], user["reason"]) == ("locked", None, "griefing")


def test_a_built_in_reason_is_in_the_players_own_language(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, reason="ban.insults", language="en")
    body = {"username": bob.name, "password": bob.password, "language": "de"}
    payload = assert_refused(stack.post("/api/login", body), 403, "banned", language="de")
    assert (payload["reason"], payload["message"]) == ("Beleidigungen", "Dieses Konto ist gebannt: Beleidigungen")
    stack.decides("ban", bob, expiresAt=in_hours(1))  # the reason stays
    assert stack.user(bob)["reason"] == "Insults"


def test_it_is_mailed_with_reason_and_end(stack: Stack) -> None:
    bob, alice = stack.approved("bob"), stack.pending("alice", language="zh")
    stack.decides("ban", bob, reason="griefing", expiresAt=4_102_444_800_000)
    letter = stack.smtp.wait_for(bob.email, 3)
    assert "banned" in letter.subject
    assert "griefing" in letter.text
    assert "The ban ends on 1 January 2100, 00:00 (UTC)." in letter.text

    stack.decides("ban", alice, silent=True)
    stack.decides("ban", stack.approved("witness"))
    assert len(stack.smtp.letters_to(alice.email)) == 1


def test_a_banned_player_cannot_come_back_by_registering(stack: Stack) -> None:
    bob = person_with_status(stack, "banned")
    again = Person(bob.name, f"second.{bob.email}", bob.password)
    assert_refused(stack.register(again), 409, "username_taken", field="username")
    stack.authme.register(bob.name, "another one")
    stack.sync()
    assert not stack.authme.login(bob.name, "another one")


# --- Who is only a player yet ---


def test_a_name_that_only_authme_knows_is_adopted_first(stack: Stack) -> None:
    steve = stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password, email=steve.email)

    stack.decides("ban", steve, reason="griefing")

    assert not stack.authme.login(steve.name, steve.password)
    assert [entry["action"] for entry in stack.audits(steve)][::-1][0] == "user.adopted"
    assert stack.audits(steve, "user.banned")[0]["operator"] == "Olivia"
    stack.decides("unban", steve)
    assert stack.authme.login(steve.name, steve.password)


# --- Another ban on top ---


@pytest.mark.every_database
def test_another_reason_or_end_changes_a_ban(stack: Stack) -> None:
    bob, end = stack.approved("bob"), in_hours(1)
    stack.decides("ban", bob, reason="griefing", expiresAt=end)

    reply = stack.decides("ban", bob, reason="griefing twice")
    assert (reply.json["status"], reply.json["message"]) == ("banned", f"The ban of {bob.name} was changed.")
    assert ban_of(stack, bob) == ("griefing twice", end)

    stack.decides("ban", bob, expiresAt=end + HOUR)
    assert ban_of(stack, bob) == ("griefing twice", end + HOUR)

    stack.decides("ban", bob, expiresAt=None)
    assert ban_of(stack, bob) == ("griefing twice", None)

    stack.decides("ban", bob, reason="once more", expiresAt=end)
    assert ban_of(stack, bob) == ("once more", end)
    details = [entry["detail"] for entry in stack.audits(bob, "user.banned")]
    assert len(details) == 5
    assert [detail["statusBefore"] for detail in details] == ["banned"] * 4 + ["approved"]
    stack.smtp.wait_for(bob.email, 7)


def ban_of(stack: Stack, person: Person) -> tuple[str | None, int | None]:
    user = stack.user(person)
    return user["reason"], user["banExpiresAt"]


@pytest.mark.parametrize("first", [{"reason": "griefing"}, {"reason": "griefing", "expiresAt": 4_102_444_800_000}, {}])
def test_a_ban_that_says_nothing_new_is_refused(stack: Stack, first: dict[str, Any]) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, **first)
    before = stack.user(bob), stack.audits(bob)
    for same in (first, {}, {"reason": first.get("reason")}, {"reason": " "}):
        payload = assert_refused(stack.decide("ban", bob, **same), 409, "wrong_status")
        assert payload["status"] == "banned"
    assert (stack.user(bob), stack.audits(bob)) == before


# --- The end of a ban ---


@pytest.mark.parametrize("status", ["approved", "pending", "rejected"])
def test_a_ban_that_is_over_goes_back_to_where_it_came_from(stack: Stack, status: str) -> None:
    person = person_with_status(stack, status, password="secret-of-his-own")
    stack.decides("ban", person, reason="cool down", expiresAt=in_hours(1))
    stack.decides("ban", person, reason="cool down longer", expiresAt=in_hours(2))
    stack.sync()
    assert stack.status(person) == "banned"

    let_ban_end(stack, person)
    stack.sync()

    user = stack.user(person)
    assert (user["status"], user["banExpiresAt"], user["reviewedBy"]) == (status, None, "sync")
    assert stack.audits(person, "user.unbanned")[0]["operator"] == "sync"
    assert stack.authme.login(person.name, "secret-of-his-own") == (status == "approved")


def test_a_login_does_not_wait_for_the_sync_to_end_a_ban(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, expiresAt=in_hours(1))
    let_ban_end(stack, bob)
    assert stack.login(bob).status == 200
    assert stack.status(bob) == "approved"
    assert stack.authme.login(bob.name, bob.password)


def test_a_new_ban_after_the_end_of_one_is_a_new_ban(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, reason="first", expiresAt=in_hours(1))
    let_ban_end(stack, bob)
    stack.decides("ban", bob)
    assert stack.audits(bob, "user.banned")[0]["detail"] == {"statusBefore": "approved"}


def test_an_end_has_to_be_a_time_to_come(stack: Stack) -> None:
    bob = stack.approved("bob")

    def check(end: object) -> None:
        assert_refused(stack.decide("ban", bob, expiresAt=end), 422, "invalid_field", field="expiresAt")

    assert_each([0, 1_000, -1, 253_402_300_800_000, "tomorrow", 1.5, True, [1]], check)
    assert stack.status(bob) == "approved"
    assert stack.authme.login(bob.name, bob.password)


# --- At once ---


@pytest.mark.every_database
def test_a_ban_meets_a_password_change_in_the_game(stack: Stack) -> None:
    """Whichever comes first: the player is out, and gets in with the newest password after the ban."""
    for _round in range(5):
        bob = stack.approved("bob")
        assert stack.authme.login(bob.name, bob.password)
        both: list[Callable[[], object]] = [
            partial(stack.decides, "ban", bob),
            partial(stack.authme.set_password, bob.name, "newer-one"),
        ]
        at_once(both)
        stack.sync()
        assert not stack.authme.login(bob.name, "newer-one")
        stack.decides("unban", bob)
        assert stack.authme.login(bob.name, "newer-one")


# Olivia lifts a ban: the player can join with their current password.


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


# Olivia deletes: user, sessions and player are gone, the history stays, and the name is free.


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
