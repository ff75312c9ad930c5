"""Olivia deletes: user, sessions and player are gone, the history stays, and the name is free."""

from functools import partial

import pytest

from tests.support.brief_outage import Outage, file_busy, file_missing, table_missing
from tests.support.decisions import STATUSES, decide_as, decide_on_many, somebody
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, Person, Village
from tests.support.together import at_once

OF_THE_USER = ("regsvc_session", "regsvc_known_client", "regsvc_link")


def rows_of(village: Village, table: str, user_id: int) -> int:
    [counted] = our_database(village).query(f"SELECT COUNT(*) AS n FROM {table} WHERE user_id = ?", (user_id,))
    return int(counted["n"])


def id_of(village: Village, person: Person) -> int:
    [user] = our_database(village).query("SELECT id FROM regsvc_user WHERE username_key = ?", (person.key,))
    return int(user["id"])


@pytest.mark.parametrize("status", STATUSES)
def test_nothing_of_the_user_is_left_but_the_history(village: Village, status: str) -> None:
    person = somebody(village, status)
    token = village.user_token(person) if status != "banned" else None
    village.decide("password", person)
    user_id = id_of(village, person)

    reply = village.decides("delete", person, reason="asked to be forgotten")

    assert (reply.json["status"], reply.json["message"]) == ("deleted", f"{person.name} was deleted.")
    assert village.status(person) is None
    assert village.authme.find(person.name) is None
    assert village.post("/api/logout", {}, token=token).status == 401
    assert_refused(village.login(person), 401, "bad_credentials")
    assert [rows_of(village, table, user_id) for table in OF_THE_USER] == [0, 0, 0]
    assert rows_of(village, "regsvc_review", user_id) == (1 if status == "pending" else 2)
    [entry] = village.audits(person, "user.deleted")
    assert entry["operator"] == "Olivia"
    assert entry["detail"] == {"statusBefore": status, "reason": "asked to be forgotten"}


def test_the_sync_brings_nobody_back(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("delete", bob)
    for _run in range(2):
        report = village.sync()
        assert (report["adopted"], report["provisioned"], report["removed"], report["errors"]) == (0, 0, 0, [])
    assert village.status(bob) is None


def test_the_name_and_the_email_are_free(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("delete", bob)
    again = Person(bob.name, bob.email, "another-secret")
    assert village.register(again).status == 201
    village.decides("approve", again)
    assert village.authme.login(again.name, "another-secret")
    assert not village.authme.login(again.name, bob.password)


def test_whoever_registers_the_name_in_the_game_is_a_new_player(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("delete", bob)
    village.authme.register(bob.name, "another-secret")
    assert village.sync()["adopted"] == 1
    assert village.user(bob)["status"] == "pending"
    assert village.user(bob)["email"] is None


def test_a_player_locked_by_a_ban_goes_too(village: Village) -> None:
    bob = somebody(village, "approved", "bob")
    village.decides("ban", bob)
    village.decides("delete", bob)
    assert village.authme.find(bob.name) is None


def test_nobody_elses_row_is_touched(village: Village) -> None:
    bob, carol = village.approved("bob"), village.approved("carol")
    before = village.authme.get(carol.name)
    village.decides("delete", bob)
    assert village.authme.get(carol.name) == before


def test_no_mail_is_sent_and_waiting_ones_are_dropped(village: Village) -> None:
    bob = village.pending("bob", password=None)
    village.smtp.hold()
    village.decides("approve", bob)
    village.decides("delete", bob)
    village.smtp.release()
    witness = village.approved("witness")
    village.smtp.wait_for(witness.email, 2)
    assert [letter.subject for letter in village.smtp.letters_to(bob.email)[2:]] == []


def test_a_name_that_only_authme_knows_goes_as_well(village: Village) -> None:
    steve = village.newcomer("steve")
    village.authme.register(steve.name, steve.password)
    village.decides("delete", steve)
    assert village.authme.find(steve.name) is None
    assert village.sync()["adopted"] == 0


def test_many_go_at_once(village: Village) -> None:
    people = [somebody(village, status) for status in STATUSES]
    nobody = village.newcomer("nobody")
    results = decide_on_many(village, "delete", [*(person.name for person in people), nobody.name])
    assert [result.get("status") for result in results] == ["deleted"] * 4 + [None]
    assert results[-1]["code"] == "user_not_found"
    assert {village.status(person) for person in people} == {None}


def test_of_fifty_one_has_an_effect(village: Village) -> None:
    bob, token = village.approved("bob"), village.olivia()
    replies = at_once([partial(decide_as, village, token, "delete", bob.name)] * 50)
    assert sorted((reply.status, reply.code) for reply in replies) == [(200, None), *[(404, "user_not_found")] * 49]
    assert len(village.audits(bob, "user.deleted")) == 1
    assert village.authme.find(bob.name) is None
    assert village.sync()["adopted"] == 0


def test_nobody_deletes_himself_or_an_equal(village: Village, operators: Operators) -> None:
    oscar, low = operators.new("oscar", level=4), operators.new("otto", level=3)
    for name in (OPERATOR, oscar.name):
        reply = decide_as(village, village.olivia(), "delete", name, language="zh")
        assert_refused(reply, 409, "protected_operator", field="username", language="zh")
    token = village.admin_token(low.name, low.password)
    assert_refused(decide_as(village, token, "delete", oscar.name), 409, "protected_operator", field="username")
    assert village.authme.login(oscar.name, oscar.password)
    assert village.decide("delete", low).status == 200
    assert village.get("/api/admin/verify", token=token).status == 401


# --- AuthMe's table is away ---


def test_while_the_table_is_missing_the_row_waits_for_its_end(village: Village) -> None:
    bob = village.approved("bob")
    with table_missing(village):
        assert village.decides("delete", bob).json["warnings"] == ["player_pending"]
    assert_is_gone_after_the_sync(village, bob)


@pytest.mark.parametrize("outage", [file_missing, file_busy])
def test_while_the_file_is_away_the_row_waits_for_its_end(impatient: Village, outage: Outage) -> None:
    bob = impatient.approved("bob")
    with outage(impatient):
        assert impatient.decides("delete", bob).json["warnings"] == ["player_pending"]
    assert_is_gone_after_the_sync(impatient, bob)


def test_a_banned_user_who_is_deleted_during_an_outage_is_gone_as_well(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob)
    with table_missing(village):
        village.decides("delete", bob)
    assert_is_gone_after_the_sync(village, bob)


def assert_is_gone_after_the_sync(village: Village, person: Person) -> None:
    assert village.status(person) is None
    report = village.sync()
    assert (report["removed"], report["adopted"], report["errors"]) == (1, 0, [])
    assert village.authme.find(person.name) is None
    assert village.status(person) is None
    assert [entry["operator"] for entry in village.audits(person, "user.deleted")] == ["Olivia"]
