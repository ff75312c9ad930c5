"""GET /api/admin/audits: filters and pages of the audit log, which cannot be changed."""

import time
from typing import Any

import pytest

from regsvc.database.audit import ACTIONS, DECISIONS
from tests.support.each import assert_each
from tests.support.our_tables import our_database
from tests.support.stack import OPERATOR, Person, Stack

MINUTE = 60_000
FIELDS = {"id", "action", "operator", "target", "detail", "ip", "timestamp"}


def ask(stack: Stack, **query: object) -> dict[str, Any]:
    """A page that is there. `from` and `to` are given as `since` and `until`."""
    named = {{"since": "from", "until": "to"}.get(name, name): str(value) for name, value in query.items()}
    reply = stack.get("/api/admin/audits", named, token=stack.olivia())
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def actions(stack: Stack, person: Person) -> list[str]:
    """Return the audit entries about this person, oldest first."""
    return [entry["action"] for entry in stack.audits(person)][::-1]


# --- What is written down ---


def test_a_life_in_entries(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.decides("reject", alice)
    stack.decides("approve", alice)
    token = stack.user_token(alice)
    stack.login(alice, "a wrong one")
    stack.post("/api/logout", {}, token=token)
    stack.decides("password", alice, password="olivias-choice-1")
    stack.decides("ban", alice)
    stack.decides("unban", alice)
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    stack.authme.register(alice.name, "a foreign password")
    stack.sync()
    stack.decides("delete", alice)

    assert actions(stack, alice) == [
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


def test_an_entry_says_who_what_whom_when_and_whence(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, reason="griefing", expiresAt=4_102_444_800_000)

    entry = stack.audits(bob)[0]
    assert set(entry) == FIELDS
    assert (entry["action"], entry["operator"], entry["target"]) == ("user.banned", OPERATOR, bob.name)
    assert entry["detail"] == {"statusBefore": "approved", "reason": "griefing", "expiresAt": 4_102_444_800_000}
    assert entry["ip"] == "127.0.0.1"
    assert abs(entry["timestamp"] - time.time() * 1000) < MINUTE


@pytest.mark.every_database
def test_the_newest_entry_comes_first_in_the_order_of_the_actions(stack: Stack) -> None:
    people = [stack.approved("bob") for _number in range(3)]
    entries = ask(stack, size=100)["audits"]
    assert entries == sorted(entries, key=lambda entry: (entry["timestamp"], entry["id"]), reverse=True)
    approved = [entry["target"] for entry in entries if entry["action"] == "user.approved"]
    assert approved[:3] == [person.name for person in reversed(people)]


def test_a_run_of_the_sync_leaves_one_entry_if_it_did_something(stack: Stack) -> None:
    def runs() -> int:
        return int(ask(stack, action="sync.run")["pagination"]["totalCount"])

    stack.sync()
    before = runs()
    stack.sync()
    assert runs() == before

    bob = stack.approved("bob")
    stack.authme.set_password(bob.name, "changed-in-the-game")
    stack.sync()
    assert runs() == before + 1
    newest = ask(stack, action="sync.run", size=1)["audits"][0]
    assert (newest["operator"], newest["target"], newest["detail"]["updated"]) == ("sync", None, 1)


@pytest.mark.every_database
def test_a_change_whose_entry_cannot_be_written_does_not_happen(stack: Stack) -> None:
    bob = stack.approved("bob")
    ours = our_database(stack)
    stack.olivia()
    if stack.kind == "sqlite":
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
        assert stack.decide("ban", bob).status >= 500
        assert stack.status(bob) == "approved"
        assert stack.authme.login(bob.name, bob.password)
        assert "user.banned" not in actions(stack, bob)
    finally:
        ours.execute("DROP TRIGGER no_bans")
    assert stack.decide("ban", bob).status == 200


# --- Pages ---


@pytest.mark.every_database
def test_pages(stack: Stack) -> None:
    bob = stack.approved("bob")
    for transition in ("ban", "unban") * 3:
        stack.decides(transition, bob)
    everything = [entry["id"] for entry in stack.audits(bob)]
    assert len(everything) == 8

    found = []
    for number in (1, 2, 3):
        page = ask(stack, target=bob.name, page=number, size=3)
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

    first = ask(stack)["pagination"]
    assert (first["currentPage"], first["pageSize"]) == (1, 20)
    beyond = ask(stack, target=bob.name, page=4, size=3)
    assert beyond["audits"] == []
    assert (beyond["pagination"]["hasNext"], beyond["pagination"]["hasPrev"]) == (False, True)
    assert ask(stack, page=2**31 - 1, size=100)["audits"] == []


# --- Filters ---


def test_every_action_may_be_asked_for(stack: Stack) -> None:
    def check(action: str) -> None:
        assert {entry["action"] for entry in ask(stack, action=action)["audits"]} <= {action}

    assert {entry["action"] for entry in ask(stack, action="decisions")["audits"]} <= set(DECISIONS)

    assert_each(ACTIONS, check)


def test_by_operator(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.user_token(bob)
    for spelling in (bob.name, bob.key, bob.name.upper()):
        entries = ask(stack, operator=spelling)["audits"]
        assert [entry["action"] for entry in entries] == ["user.logged_in", "user.registered"]
    assert {entry["operator"] for entry in ask(stack, operator="olivia", size=100)["audits"]} == {OPERATOR}
    assert ask(stack, operator="nobody at all")["audits"] == []


@pytest.mark.every_database
def test_by_target_in_any_case_and_after_the_end(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("delete", bob)
    for spelling in (bob.name, bob.key, bob.name.upper()):
        entries = ask(stack, target=spelling)["audits"]
        assert [entry["action"] for entry in entries] == ["user.deleted", "user.approved", "user.registered"]
    for literal in ("%", "_", "Bob%", f"{bob.name[:-1]}_"):
        assert ask(stack, target=literal)["audits"] == []


@pytest.mark.every_database
def test_by_time_both_ends_included(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob)
    banned, approved, registered = (entry["timestamp"] for entry in stack.audits(bob))

    def found(**query: int) -> list[str]:
        return [entry["action"] for entry in ask(stack, target=bob.name, **query)["audits"]]

    assert found(since=banned) == ["user.banned"]
    assert found(until=registered) == ["user.registered"]
    assert found(since=approved, until=approved) == ["user.approved"]
    assert found(since=registered, until=banned) == ["user.banned", "user.approved", "user.registered"]
    assert found(since=banned + 1) == []
    assert found(until=registered - 1) == []
    assert found(since=banned, until=registered) == []
