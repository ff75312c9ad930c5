"""Who did what to whom, as Olivia reads it: filtered, paged, and for nobody to change."""

import sqlite3
import time
from typing import Any

import pymysql
import pytest

from regsvc.database.audit import ACTIONS
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, Person, Village

MINUTE = 60_000
FIELDS = {"id", "action", "operator", "target", "detail", "ip", "timestamp"}


def ask(village: Village, **query: object) -> dict[str, Any]:
    """A page that is there. `from` and `to` are given as `since` and `until`."""
    named = {{"since": "from", "until": "to"}.get(name, name): str(value) for name, value in query.items()}
    reply = village.get("/api/admin/audits", named, token=village.olivia())
    assert reply.status == 200, reply.text
    told: dict[str, Any] = reply.json
    return told


def actions(village: Village, person: Person) -> list[str]:
    """What was done to this person, oldest first."""
    return [entry["action"] for entry in village.audits(person)][::-1]


# --- What is written down ---


def test_a_life_in_entries(village: Village) -> None:
    alice = village.pending("alice")
    village.decides("reject", alice)
    village.decides("approve", alice)
    token = village.user_token(alice)
    village.login(alice, "a wrong one")
    village.post("/api/logout", {}, token=token)
    village.decides("password", alice, password="olivias-choice-1")
    village.decides("ban", alice)
    village.decides("unban", alice)
    village.authme.unregister_from_console(alice.name)
    village.sync()
    village.authme.register(alice.name, "a strangers one")
    village.sync()
    village.decides("delete", alice)

    assert actions(village, alice) == [
        "user.registered",
        "user.rejected",
        "user.approved",
        "user.logged_in",
        "user.login_failed",
        "user.logged_out",
        "user.password_changed",
        "user.banned",
        "user.unbanned",
        "sync.player_removed",
        "sync.player_returned",
        "sync.player_locked",
        "user.deleted",
    ]


def test_an_entry_says_who_what_whom_when_and_whence(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob, reason="griefing", expiresAt=4_102_444_800_000)

    entry = village.audits(bob)[0]
    assert set(entry) == FIELDS
    assert (entry["action"], entry["operator"], entry["target"]) == ("user.banned", OPERATOR, bob.name)
    assert entry["detail"] == {"statusBefore": "approved", "reason": "griefing", "expiresAt": 4_102_444_800_000}
    assert entry["ip"] == "127.0.0.1"
    assert abs(entry["timestamp"] - time.time() * 1000) < MINUTE


def test_newest_first_and_in_the_order_of_the_deeds(village: Village) -> None:
    people = [village.approved("bob") for _number in range(3)]
    entries = ask(village, size=100)["audits"]
    ids = [entry["id"] for entry in entries]
    assert ids == sorted(ids, reverse=True)
    approved = [entry["target"] for entry in entries if entry["action"] == "user.approved"]
    assert approved[:3] == [person.name for person in reversed(people)]


def test_a_run_of_the_sync_leaves_one_entry_if_it_did_something(village: Village) -> None:
    def runs() -> int:
        return int(ask(village, action="sync.run")["pagination"]["totalCount"])

    village.sync()
    before = runs()
    village.sync()
    assert runs() == before

    bob = village.approved("bob")
    village.authme.set_password(bob.name, "changed-in-the-game")
    village.sync()
    assert runs() == before + 1
    newest = ask(village, action="sync.run", size=1)["audits"][0]
    assert (newest["operator"], newest["target"], newest["detail"]["updated"]) == ("sync", None, 1)


def test_a_refused_decision_leaves_none(village: Village) -> None:
    """The entry goes with the change, in one transaction: where there is no change, there is no entry."""
    bob = village.approved("bob")
    before = actions(village, bob)
    for transition in ("approve", "reject", "unban"):
        assert village.decide(transition, bob).status == 409
    assert actions(village, bob) == before


def test_a_change_whose_entry_cannot_be_written_does_not_happen(village: Village) -> None:
    bob = village.approved("bob")
    ours = our_database(village)
    village.olivia()
    if village.kind == "sqlite":
        ours.execute(
            "CREATE TRIGGER no_bans BEFORE INSERT ON regsvc_audit WHEN NEW.action = 'user.banned'"
            " BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    else:
        ours.execute(
            "CREATE TRIGGER no_bans BEFORE INSERT ON regsvc_audit FOR EACH ROW"
            " IF NEW.action = 'user.banned' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'full'; END IF"
        )
    try:
        assert village.decide("ban", bob).status >= 500
        assert village.status(bob) == "approved"
        assert village.authme.login(bob.name, bob.password)
        assert "user.banned" not in actions(village, bob)
    finally:
        ours.execute("DROP TRIGGER no_bans")
    assert village.decide("ban", bob).status == 200


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM regsvc_audit WHERE target = ?",
        "UPDATE regsvc_audit SET operator = 'nobody' WHERE target = ?",
        "UPDATE regsvc_audit SET action = 'user.approved' WHERE target = ?",
        "UPDATE regsvc_audit SET target = 'nobody' WHERE target = ?",
        "UPDATE regsvc_audit SET detail = NULL WHERE target = ?",
        "UPDATE regsvc_audit SET created_at = '2020-01-01 00:00:00.000' WHERE target = ?",
        "UPDATE regsvc_audit SET occurrences = 2 WHERE target = ?",
        "UPDATE regsvc_audit SET ip = NULL WHERE target = ?",
    ],
)
def test_it_is_append_only_for_sql_too(village: Village, statement: str) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob, reason="griefing")
    before = village.audits(bob)
    with pytest.raises((sqlite3.DatabaseError, pymysql.MySQLError), match="append-only"):
        our_database(village).execute(statement, (bob.name,))
    assert village.audits(bob) == before


# --- Pages ---


def test_pages(village: Village) -> None:
    bob = village.approved("bob")
    for transition in ("ban", "unban") * 3:
        village.decides(transition, bob)
    everything = [entry["id"] for entry in village.audits(bob)]
    assert len(everything) == 8

    found = []
    for number in (1, 2, 3):
        page = ask(village, target=bob.name, page=number, size=3)
        assert page["pagination"] == {
            "currentPage": number,
            "pageSize": 3,
            "totalCount": 8,
            "totalPages": 3,
            "hasNext": number < 3,
            "hasPrev": number > 1,
        }
        found += [entry["id"] for entry in page["audits"]]
    assert found == everything

    beyond = ask(village, target=bob.name, page=4, size=3)
    assert beyond["audits"] == []
    assert (beyond["pagination"]["hasNext"], beyond["pagination"]["hasPrev"]) == (False, True)
    assert ask(village, page=2**31 - 1, size=100)["audits"] == []


def test_the_first_twenty_by_default(village: Village) -> None:
    for _number in range(11):
        village.approved("bob")
    page = ask(village)
    assert (page["pagination"]["currentPage"], page["pagination"]["pageSize"]) == (1, 20)
    assert len(page["audits"]) == 20
    assert len(ask(village, size=1)["audits"]) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"page": "0"}, "page"),
        ({"page": "-1"}, "page"),
        ({"page": "one"}, "page"),
        ({"page": "9" * 30}, "page"),
        ({"size": "0"}, "size"),
        ({"size": "101"}, "size"),
        ({"size": "1.5"}, "size"),
        ({"from": "yesterday"}, "from"),
        ({"from": "-1"}, "from"),
        ({"to": "253402300800000"}, "to"),
        ({"to": "2026-01-01"}, "to"),
    ],
    ids=str,
)
def test_it_names_the_parameter_that_is_wrong(village: Village, query: dict[str, str], field: str) -> None:
    token = village.olivia()
    assert_refused(village.get("/api/admin/audits", query, token=token), 422, "invalid_field", field=field)
    reply = village.get("/api/admin/audits", query | {"language": "zh"}, token=token)
    assert_refused(reply, 422, "invalid_field", field=field, language="zh")


# --- Filters ---


def test_by_action(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob)
    page = ask(village, action="user.banned", size=100)
    assert page["audits"][0]["target"] == bob.name
    assert {entry["action"] for entry in page["audits"]} == {"user.banned"}
    assert ask(village, action="user.banned", target=bob.name)["pagination"]["totalCount"] == 1


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_may_be_asked_for(village: Village, action: str) -> None:
    assert {entry["action"] for entry in ask(village, action=action)["audits"]} <= {action}


def test_by_operator(village: Village) -> None:
    bob = village.approved("bob")
    village.user_token(bob)
    for spelling in (bob.name, bob.key, bob.name.upper()):
        entries = ask(village, operator=spelling)["audits"]
        assert [entry["action"] for entry in entries] == ["user.logged_in", "user.registered"]
    assert {entry["operator"] for entry in ask(village, operator="olivia", size=100)["audits"]} == {OPERATOR}
    assert ask(village, operator="nobody at all")["audits"] == []


def test_by_target_in_any_case_and_after_the_end(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("delete", bob)
    for spelling in (bob.name, bob.key, bob.name.upper()):
        entries = ask(village, target=spelling)["audits"]
        assert [entry["action"] for entry in entries] == ["user.deleted", "user.approved", "user.registered"]
    for literal in ("%", "_", "Bob%", f"{bob.name[:-1]}_"):
        assert ask(village, target=literal)["audits"] == []


def test_by_time_both_ends_included(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob)
    banned, approved, registered = (entry["timestamp"] for entry in village.audits(bob))

    def found(**query: int) -> list[str]:
        return [entry["action"] for entry in ask(village, target=bob.name, **query)["audits"]]

    assert found(since=banned) == ["user.banned"]
    assert found(until=registered) == ["user.registered"]
    assert found(since=approved, until=approved) == ["user.approved"]
    assert found(since=registered, until=banned) == ["user.banned", "user.approved", "user.registered"]
    assert found(since=banned + 1) == []
    assert found(until=registered - 1) == []
    assert found(since=banned, until=registered) == []


def test_an_empty_filter_is_none(village: Village) -> None:
    assert ask(village, action="", operator="", target="", since="", until="") == ask(village)
