"""Olivia approves: the applicant may play, hears of it, and AuthMe has the row it would have made itself."""

import time
from functools import partial

import pytest

from plugin_bridge.hashers import HASHERS, HashedPassword
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_like import offline_uuid
from tests.support.authme.authme_tables import TableShape
from tests.support.command_line import companion
from tests.support.crash.brief_outage import assert_synced, table_missing
from tests.support.decisions import decide_as, decide_on_many
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.together import at_once

pytestmark = pytest.mark.every_database

MINUTE = 60_000
UNTOUCHED = {
    "ip": None,
    "lastlogin": None,
    "x": 0.0,
    "y": 0.0,
    "z": 0.0,
    "world": "world",
    "yaw": None,
    "pitch": None,
    "isLogged": 0,
    "hasSession": 0,
    "totp": None,
    "premiumUUID": None,
}
"""Columns that AuthMe leaves to their defaults when a player registers."""


def assert_row_is_as_authme_makes_it(stack: Stack, person: Person) -> None:
    """But for the two columns of the password."""
    row = stack.authme.get(person.name)
    assert abs(row["regdate"] - time.time() * 1000) < MINUTE
    payload = {name: row[name] for name in ("username", "realname", "email", "regip")}
    expected = {"username": person.key, "realname": person.name, "email": person.email, "regip": "127.0.0.1"}
    assert payload == expected
    assert {name: row[name] for name in UNTOUCHED} == UNTOUCHED


def test_the_row_is_as_authme_makes_it(stack: Stack) -> None:
    alice = stack.approved("alice")
    assert_row_is_as_authme_makes_it(stack, alice)
    row = stack.authme.get(alice.name)
    assert "salt" not in row
    assert HASHERS["SHA256"].verify(alice.password, HashedPassword(row["password"]), alice.name)
    assert stack.authme.login(alice.name, alice.password)
    assert stack.user(alice)["plugin"] == "synced"


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_the_row_has_salt_and_uuid_where_the_table_has_them(make_stack: MakeStack, kind: DatabaseKind) -> None:
    authme = {"settings.security.passwordHash": "SALTEDSHA512"}
    stack = make_stack(kind, shape=TableShape.FULL, authme=authme)
    alice = stack.approved("alice")

    assert_row_is_as_authme_makes_it(stack, alice)
    row = stack.authme.get(alice.name)
    assert row["uuid"] == offline_uuid(alice.name)
    assert len(row["salt"]) >= 8
    assert HASHERS["SALTEDSHA512"].verify(alice.password, HashedPassword(row["password"], row["salt"]), alice.name)
    assert stack.authme.login(alice.name, alice.password)
    assert not stack.authme.login(alice.name, "a wrong one")
    assert stack.sync()["updated"] == 0


@pytest.mark.one_database("mariadb")
def test_the_applicant_hears_of_it_with_the_reason(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.decides("approve", alice, reason="welcome back, <b>friend</b>")

    letter = stack.smtp.wait_for(alice.email, 2)
    assert letter.subject.startswith("Welcome")
    assert "welcome back, <b>friend</b>" in letter.text
    assert letter.html is not None
    assert "&lt;b&gt;friend" in letter.html
    assert stack.user(alice)["reason"] == "welcome back, <b>friend</b>"
    token = stack.user_token(alice)
    payload = stack.get("/api/user/status", {"username": alice.name}, token=token).json["data"]
    assert (payload["reason"], payload["email"]) == ("welcome back, <b>friend</b>", alice.email)
    assert payload["reviewedAt"] == stack.user(alice)["reviewedAt"]


@pytest.mark.one_database("mariadb")
def test_the_mail_is_in_the_applicants_language_the_reply_in_olivias(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh")
    reply = stack.decides("approve", alice, language="en")
    assert reply.json["message"] == f"{alice.name} was approved."
    assert "欢迎" in stack.smtp.wait_for(alice.email, 2).subject

    bob = stack.pending("bob")
    assert "已通过" in stack.decides("approve", bob, language="zh").json["message"]
    assert stack.smtp.wait_for(bob.email, 2).subject.startswith("Welcome")


# --- Approved again ---


def test_a_player_who_left_the_table_is_provisioned_again(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(stack.decide("approve", bob), 409, "wrong_status")
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    assert stack.user(bob)["plugin"] == "absent"
    assert stack.authme.find(bob.name) is None

    stack.decides("approve", bob)

    assert stack.authme.login(bob.name, bob.password)
    assert stack.user(bob)["plugin"] == "synced"
    assert_refused(stack.decide("approve", bob), 409, "wrong_status")


def test_it_goes_by_what_the_list_says(stack: Stack) -> None:
    """One row that is not there may be a table that is wrong: that is for a run of the sync to find."""
    bob = stack.approved("bob")
    stack.authme.unregister_from_console(bob.name)
    assert stack.user(bob)["plugin"] == "synced"
    assert_refused(stack.decide("approve", bob), 409, "wrong_status")
    assert stack.authme.find(bob.name) is None


NEW = "the-new-password"


def registered_anew(stack: Stack, name: str = "bob") -> Person:
    """Return an approved player who was unregistered in the game, and registered there again."""
    bob = stack.approved(name)
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    stack.authme.register(bob.name, NEW, email="another@example.org")
    stack.sync()
    assert stack.user(bob)["plugin"] == "returned"
    assert not stack.authme.login(bob.name, NEW)
    return bob


def test_a_row_registered_anew_is_given_back_with_the_password_that_olivia_chooses(stack: Stack) -> None:
    bob, carol = registered_anew(stack), registered_anew(stack, "carol")
    for language in ("en", "zh"):
        reply = stack.decide("approve", bob, language=language)
        assert_refused(reply, 409, "password_choice_needed", field="passwordChoice", language=language)
    assert stack.user(bob)["plugin"] == "returned"
    assert_refused(stack.decide("approve", bob, passwordChoice="both"), 422, "invalid_field", field="passwordChoice")

    stack.decides("approve", bob, passwordChoice="keep")
    stack.decides("approve", carol, passwordChoice="take")

    for person, right, wrong in ((bob, bob.password, NEW), (carol, NEW, carol.password)):
        assert stack.user(person)["plugin"] == "synced"
        assert stack.authme.login(person.name, right)
        assert stack.login(person, right).status == 200
        assert not stack.authme.login(person.name, wrong)
        assert stack.login(person, wrong).status == 401
        assert stack.authme.get(person.name)["email"] == person.email
    assert stack.audits(carol, "user.approved")[0]["detail"] == {"statusBefore": "approved", "returned": "take"}


def test_among_many_each_row_registered_anew_is_asked_about(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), registered_anew(stack)
    approved, refused = decide_on_many(stack, "approve", [alice.name, bob.name])
    assert approved["success"]
    assert (refused["code"], refused["field"]) == ("password_choice_needed", "passwordChoice")
    assert not refused["success"]
    carol = stack.pending("carol")
    assert all(
        result["success"] for result in decide_on_many(stack, "approve", [carol.name, bob.name], passwordChoice="take")
    )
    assert stack.authme.login(carol.name, carol.password)
    assert stack.authme.login(bob.name, NEW)


# --- Many ---


@pytest.mark.one_database("mariadb")
def test_the_words_of_each_result_are_in_olivias_language(stack: Stack) -> None:
    alice, nobody = stack.pending("alice"), stack.newcomer("nobody")
    approved, unknown = decide_on_many(stack, "approve", [alice.name, nobody.name], language="zh")
    assert "已通过" in approved["message"]
    assert "用户" in unknown["message"]


# --- Two at once ---


def test_opposite_decisions_at_once_leave_one_of_them(stack: Stack) -> None:
    for _round in range(5):
        alice = stack.pending("alice")
        decisions = ["approve", "reject"] * 5
        replies = at_once([partial(stack.decide, name, alice) for name in decisions])
        statuses = [reply.status for reply in replies]
        assert set(statuses) <= {200, 409}
        # a rejected applicant may still be approved, so two may be right one after the other
        taken = [name for name, status in zip(decisions, statuses, strict=True) if status == 200]
        assert sorted(taken) in (["approve"], ["reject"], ["approve", "reject"])
        assert len(stack.audits(alice, "user.approved")) == taken.count("approve")
        assert len(stack.audits(alice, "user.rejected")) == taken.count("reject")


def test_a_name_that_is_many_times_among_many_is_decided_once(stack: Stack) -> None:
    people = [stack.pending("crowd") for _number in range(5)]
    names = [person.name for person in people]
    batches = at_once([lambda: decide_on_many(stack, "approve", names, silent=True)] * 8)
    assert sum(result["success"] for batch in batches for result in batch) == 5
    assert {result["code"] for batch in batches for result in batch if not result["success"]} == {"wrong_status"}
    for person in people:
        assert len(stack.audits(person, "user.approved")) == 1


# --- AuthMe's table is away ---


def test_an_approval_of_somebody_missed_waits_for_the_table_too(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    with table_missing(stack):
        assert stack.decides("approve", bob).json["warnings"] == ["player_pending"]
    assert_synced(stack, provisioned=1)
    assert stack.authme.login(bob.name, bob.password)


@pytest.mark.parametrize("transition", ["approve", "unban"])
def test_an_operator_of_a_lower_level_gives_nobody_more_rights_than_he_has(stack: Stack, transition: str) -> None:
    """Otherwise a moderator could register the name of an absent owner in the game, and be owner on the web."""
    operators = Operators(stack)
    oscar, paula, late = operators.new("oscar", 1), operators.new("paula", 4), stack.newcomer("late")
    operators.appoint(late)
    stack.authme.register(late.name, late.password)
    stack.sync()
    if transition == "unban":
        assert companion("users", "ban", late.name, config=stack.daemon.config_file).status == 0
    before = stack.status(late)
    token = stack.admin_token(oscar.name, oscar.password)
    assert_refused(decide_as(stack, token, transition, late.name), 409, "protected_operator", field="username")
    assert stack.status(late) == before
    token = stack.admin_token(paula.name, paula.password)
    assert decide_as(stack, token, transition, late.name).status == 200
    assert stack.status(late) == "approved"
