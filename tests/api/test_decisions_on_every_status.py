"""Every decision on every status: the legal ones and their effects, one or many at once; all others are refused."""

from dataclasses import replace
from functools import partial

import pytest

from regsvc.app.routes import ROUTES
from regsvc.core.i18n import load_translations
from regsvc.users.transitions import TRANSITIONS
from tests.support.crash.brief_outage import Outage, assert_synced, file_busy, file_missing, table_missing
from tests.support.decisions import STATUSES, decide_as, decide_on_many, person_with_status
from tests.support.each import assert_each
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, Person, Stack
from tests.support.together import at_once

# Every decision on every status: the legal ones and their effects; all others are refused.


LEGAL = {
    ("approve", "pending"): "approved",
    ("approve", "rejected"): "approved",
    ("reject", "pending"): "rejected",
    ("ban", "pending"): "banned",
    ("ban", "approved"): "banned",
    ("ban", "rejected"): "banned",
    ("unban", "banned"): "approved",
    ("reopen", "approved"): "pending",
    ("reopen", "rejected"): "pending",
    ("delete", "pending"): "deleted",
    ("delete", "approved"): "deleted",
    ("delete", "rejected"): "deleted",
    ("delete", "banned"): "deleted",
}
ACTIONS = {
    "approve": "user.approved",
    "reject": "user.rejected",
    "ban": "user.banned",
    "unban": "user.unbanned",
    "reopen": "user.reopened",
    "delete": "user.deleted",
}
PAIRS = [(transition, status) for transition in ACTIONS for status in STATUSES]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def test_the_table_is_whole() -> None:
    assert set(TRANSITIONS) == set(ACTIONS)
    payload = {
        (name, source): rule.target or "deleted" for name, rule in TRANSITIONS.items() for source in rule.sources
    }
    assert payload == LEGAL
    paths = {"/api/admin/user/approve", "/api/admin/user/reject", "/api/admin/user/ban", "/api/admin/user/unban"}
    paths |= {"/api/admin/user/reopen", "/api/admin/user/delete"}
    assert {f"/api/admin/user/{transition}" for transition in ACTIONS} == paths
    assert paths <= {route.path for route in ROUTES}


@pytest.mark.parametrize(("transition", "status"), LEGAL)
def test_a_legal_decision_has_one_effect_and_one_entry(stack: Stack, transition: str, status: str) -> None:
    person = person_with_status(stack, status)
    entries = stack.audits(person)

    reply = stack.decides(transition, replace(person, name=person.name.upper()), reason="because")

    target = LEGAL[transition, status]
    assert set(reply.json) == {"success", "message", "kind", "username", "status"}
    assert (reply.json["username"], reply.json["status"]) == (person.name, target)
    assert person.name in reply.json["message"]
    assert stack.status(person) == (None if target == "deleted" else target)
    made = stack.audits(person)[: -len(entries)]
    [entry] = [it for it in made if it["action"] != "sync.player_locked"]
    assert (entry["action"], entry["operator"], entry["ip"]) == (ACTIONS[transition], "Olivia", "127.0.0.1")
    has_ended = status == "approved" and transition == "reopen"  # what an undo gives back
    assert bool(entry["detail"].pop("membershipBefore", None)) is has_ended
    assert entry["detail"] == {"statusBefore": status, "reason": "because"}
    assert stack.sync()["errors"] == []
    assert stack.status(person) == (None if target == "deleted" else target)


@pytest.mark.parametrize(("transition", "status"), ILLEGAL)
def test_an_illegal_decision_changes_nothing(stack: Stack, transition: str, status: str) -> None:
    person = person_with_status(stack, status)
    before = stack.user(person), stack.audits(person), len(stack.smtp.letters_to(person.email))
    row = stack.authme.find(person.name)

    payload = assert_refused(stack.decide(transition, person), 409, "wrong_status")
    assert payload["status"] == status
    chinese = stack.decide(transition, person, language="zh")
    assert assert_refused(chinese, 409, "wrong_status", language="zh")["status"] == status

    assert (stack.user(person), stack.audits(person)) == before[:2]
    assert stack.authme.find(person.name) == row


@pytest.mark.parametrize("transition", [*ACTIONS, "password"])
def test_nobody_of_that_name(stack: Stack, transition: str) -> None:
    nobody = stack.newcomer("nobody")
    assert_refused(stack.decide(transition, nobody), 404, "user_not_found", field="username")
    chinese = stack.decide(transition, nobody, language="zh")
    assert_refused(chinese, 404, "user_not_found", field="username", language="zh")
    for odd in ("", " ", "x" * 300, "%", "_", "é\u202e", "'; DROP TABLE regsvc_user; --"):
        reply = stack.post(f"/api/admin/user/{transition}", {"username": odd}, token=stack.olivia())
        assert_refused(reply, 404, "user_not_found", field="username")


WRONG_BODIES: tuple[tuple[dict[str, object], str], ...] = (
    ({}, "username"),
    ({"username": None}, "username"),
    ({"username": 7}, "username"),
    ({"username": ["Bob"]}, "username"),
    ({"username": "Bob", "usernames": ["Bob"]}, "usernames"),
    ({"usernames": []}, "usernames"),
    ({"usernames": "Bob"}, "usernames"),
    ({"usernames": ["Bob", 7]}, "usernames"),
    ({"usernames": [f"Bob{number}" for number in range(101)]}, "usernames"),
    ({"username": "Bob", "reason": 7}, "reason"),
    ({"username": "Bob", "reason": "x" * 4001}, "reason"),
    ({"username": "Bob", "silent": "yes"}, "silent"),
    ({"username": "Bob", "language": 7}, "language"),
)
"""Bodies with one wrong field, and its name."""


@pytest.mark.parametrize("transition", [*ACTIONS, "password"])
def test_a_field_of_the_wrong_type_is_named(stack: Stack, transition: str) -> None:
    def check(case: tuple[dict[str, object], str]) -> None:
        body, field = case
        reply = stack.post(f"/api/admin/user/{transition}", body, token=stack.olivia())
        assert_refused(reply, 422, "invalid_field", field=field)

    assert_each(WRONG_BODIES, check)


# --- At once ---

FIRST = {transition: next(status for name, status in LEGAL if name == transition) for transition in ACTIONS}
"""A status from which each decision is legal."""


@pytest.mark.every_database
@pytest.mark.parametrize("transition", ACTIONS)
def test_of_fifty_at_once_one_has_an_effect(stack: Stack, operators: Operators, transition: str) -> None:
    """R39: by two of the team."""
    oscar, person = operators.new("oscar"), person_with_status(stack, FIRST[transition])
    tokens = [stack.olivia(), stack.admin_token(oscar.name, oscar.password)]
    mails = mails_to(stack, person)
    stack.sync()  # adopts whom earlier tests left in the game

    replies = at_once([partial(decide_as, stack, token, transition, person.name) for token in tokens * 25])

    refused = (404, "user_not_found") if transition == "delete" else (409, "wrong_status")
    assert sorted((reply.status, reply.code) for reply in replies) == [(200, None), *[refused] * 49]
    assert len(stack.audits(person, ACTIONS[transition])) == 1
    [reviews] = our_database(stack).query(
        "SELECT COUNT(*) AS n FROM regsvc_review WHERE transition = ? AND username_key = ?", (transition, person.key)
    )
    assert reviews["n"] == 1
    assert mails_to(stack, person) == mails + (transition != "reopen")  # which tells nobody unless asked to
    assert stack.authme.login(person.name, person.password) == (transition in ("approve", "unban"))
    assert stack.sync()["adopted"] == 0


def mails_to(stack: Stack, person: Person) -> int:
    query = "SELECT COUNT(*) AS n FROM regsvc_outbox WHERE recipient_key = ?"
    return int(our_database(stack).query(query, (person.email,))[0]["n"])


# --- Operators ---

NEW = "olivias-choice-1"


@pytest.mark.every_database
@pytest.mark.parametrize("transition", ["reject", "ban", "delete", "password"])
def test_operators_are_safe_from_themselves_and_their_equals(
    stack: Stack, operators: Operators, transition: str
) -> None:
    high, equal, middle = (operators.new("oscar", level=level) for level in (4, 3, 3))
    low = stack.pending("otto") if transition == "reject" else stack.approved("otto")
    token = stack.admin_token(middle.name, middle.password)
    operators.appoint(low, level=3)
    for person in (high, equal, middle, low):
        before, letters = stack.status(person), len(stack.smtp.letters_to(person.email))
        for fields in ({}, {"password": NEW}) if transition == "password" else ({},):
            reply = decide_as(stack, token, transition, person.name.upper(), **fields)
            assert_refused(reply, 409, "protected_operator", field="username")
        assert (stack.status(person), len(stack.smtp.letters_to(person.email))) == (before, letters)
        assert stack.authme.login(person.name, person.password) == (before == "approved")
    own = stack.decide(transition, Person(OPERATOR, "", ""), language="zh")
    assert_refused(own, 409, "protected_operator", field="username", language="zh")

    operators.appoint(low, level=2)
    fields = {"password": NEW} if transition == "password" else {}
    assert decide_as(stack, token, transition, low.name, **fields).status == 200
    assert stack.authme.login(low.name, low.password) is False


# --- AuthMe's table is away ---

CARRIED_OUT_LATER = {
    "approve": ("approved", "provisioned"),
    "ban": ("banned", "locked"),
    "unban": ("approved", "restored"),
    "delete": (None, "removed"),
    "password": ("approved", "updated"),
}
"""Of each decision that a row follows: the status afterwards, and where the report of the sync counts it."""


@pytest.mark.every_database
@pytest.mark.parametrize("transition", CARRIED_OUT_LATER)
def test_while_the_table_is_missing_a_decision_stands_and_the_row_follows(stack: Stack, transition: str) -> None:
    decide_during(stack, table_missing, transition)


@pytest.mark.parametrize(
    ("outage", "transition"), list(zip([file_missing, file_busy] * 3, CARRIED_OUT_LATER, strict=False))
)
def test_while_the_file_is_away_a_decision_stands_and_the_row_follows(
    impatient: Stack, outage: Outage, transition: str
) -> None:
    decide_during(impatient, outage, transition)


def decide_during(stack: Stack, outage: Outage, transition: str) -> None:
    """Decide on Alice and, as one of many, on Bob."""
    status, counted_as = CARRIED_OUT_LATER[transition]
    people = [stack.pending(name) if transition == "approve" else stack.approved(name) for name in ("alice", "bob")]
    tokens = [stack.user_token(person) for person in people]
    action = {**ACTIONS, "password": "user.password_changed"}[transition]
    fields = {"password": NEW} if transition == "password" else {}
    for person in people if transition == "unban" else ():
        stack.decides("ban", person)
    stack.olivia()  # logs in while her own row can be read

    with outage(stack):
        results = [stack.decides(transition, people[0], **fields).json]
        results += decide_on_many(stack, transition, [people[1].name], **fields)
        assert [result["warnings"] for result in results] == [["player_pending"]] * 2
        if transition in ("ban", "delete"):
            assert [stack.post("/api/logout", {}, token=token).status for token in tokens] == [401, 401]
        assert [stack.status(person) for person in people] == [status, status]
        if outage is table_missing:
            [error] = stack.sync()["errors"]
            assert error["username"] is None
    plays_before = transition in ("ban", "delete", "password")
    assert [stack.authme.login(person.name, person.password) for person in people] == [plays_before] * 2

    assert_synced(stack, **{"adopted": 0, counted_as: 2})
    for person in people:
        plays = stack.authme.login(person.name, NEW if transition == "password" else person.password)
        assert plays == (status == "approved")
        assert stack.status(person) == status
        assert len(stack.audits(person, action)) == 1
        if plays:
            assert stack.login(person, NEW if transition == "password" else person.password).status == 200
            assert stack.user(person)["plugin"] == "synced"


# Decisions about many at once: each in a transaction of its own, one result for each, and one reply.


MANY = 100
AFTERWARDS = {"approve": "approved", "reject": "rejected", "ban": "banned", "delete": "deleted"}


def crowd(stack: Stack, size: int) -> list[str]:
    """Insert this many pending users and return their names; registering them would take a mail each."""
    people = [stack.newcomer("many") for _number in range(size)]
    ours = our_database(stack)
    for person in people:
        ours.execute(
            "INSERT INTO regsvc_user (username, username_key, email, email_key, is_email_verified, status,"
            " applied_status, platform, token_generation, origin, created_at) VALUES (?, ?, ?, ?, 1, 'pending',"
            " 'pending', 'java', 0, 'registered', '2026-01-01 00:00:00.000')",
            (person.name, person.key, person.email, person.email),
        )
    return [person.name for person in people]


def statuses(stack: Stack, names: list[str]) -> set[str | None]:
    return {stack.get("/api/user/status", {"username": name}).json["data"].get("status") for name in names}


def mails_about(stack: Stack, names: list[str]) -> int:
    keys = [name.lower() for name in names]
    rows = our_database(stack).query(
        "SELECT COUNT(*) AS n FROM regsvc_outbox o JOIN regsvc_user u ON u.id = o.user_id"
        f" WHERE u.username_key IN ({', '.join('?' * len(keys))})",
        tuple(keys),
    )
    return int(rows[0]["n"])


def entries_about(stack: Stack, names: list[str], action: str) -> int:
    rows = our_database(stack).query(
        f"SELECT COUNT(*) AS n FROM regsvc_audit WHERE action = ? AND target IN ({', '.join('?' * len(names))})",
        (action, *names),
    )
    return int(rows[0]["n"])


@pytest.mark.every_database
@pytest.mark.parametrize(("transition", "size"), [("approve", 30), ("reject", 10), ("ban", 10), ("delete", 10)])
def test_many_at_once(stack: Stack, transition: str, size: int) -> None:
    names = crowd(stack, size)
    results = decide_on_many(stack, transition, names, reason="all of you")
    status = AFTERWARDS[transition]
    assert [(result["username"], result["success"], result["status"]) for result in results] == [
        (name, True, status) for name in names
    ]
    assert statuses(stack, names) == {None if transition == "delete" else status}
    assert entries_about(stack, names, f"user.{status}") == size
    assert mails_about(stack, names) == (0 if transition == "delete" else size)


def test_a_hundred_names_are_not_too_many(stack: Stack) -> None:
    results = decide_on_many(stack, "approve", [f"Nobody{number}" for number in range(MANY)])
    assert [result["code"] for result in results] == ["user_not_found"] * MANY


def test_a_name_given_twice_is_decided_once_and_in_another_spelling_comes_second(stack: Stack) -> None:
    names = crowd(stack, 2)
    results = decide_on_many(stack, "approve", [names[0], names[1], names[0], names[0].upper()])
    assert [(result["success"], result.get("code")) for result in results] == [
        (True, None),
        (True, None),
        (False, "wrong_status"),
    ]
    assert [result["username"] for result in results[:2]] == names
    assert entries_about(stack, names, "user.approved") == 2


@pytest.mark.every_database
def test_one_that_is_refused_holds_up_nobody(stack: Stack) -> None:
    names = crowd(stack, 3)
    banned = stack.approved("bob")
    stack.decides("ban", banned)
    asked = [names[0], banned.name, names[1], "Nobody_at_all", names[2], "Olivia"]
    results = decide_on_many(stack, "reject", asked)
    assert [(result["username"], result["success"], result.get("code")) for result in results] == [
        (names[0], True, None),
        (banned.name, False, "wrong_status"),
        (names[1], True, None),
        ("Nobody_at_all", False, "user_not_found"),
        (names[2], True, None),
        ("Olivia", False, "protected_operator"),
    ]
    refused = results[1]
    words = load_translations()
    assert refused["status"] == "banned"
    assert refused["message"] == words.text("refusal.wrong_status", "en", status="banned")
    assert statuses(stack, names) == {"rejected"}


def test_silence_mails_nobody(stack: Stack) -> None:
    names, others = crowd(stack, 5), crowd(stack, 2)
    for transition in ("approve", "ban", "unban"):
        decide_on_many(stack, transition, names, silent=True, reason="quietly")
    decide_on_many(stack, "reject", others, silent=True)
    assert (statuses(stack, names), statuses(stack, others)) == ({"approved"}, {"rejected"})
    assert mails_about(stack, [*names, *others]) == 0
    assert stack.user(Person(names[0], "", ""))["reason"] == "quietly"
    decide_on_many(stack, "ban", names)
    assert mails_about(stack, names) == 5


def test_a_ban_of_many_has_one_end_and_one_reason(stack: Stack) -> None:
    names = crowd(stack, 2)
    decide_on_many(stack, "ban", names, reason="griefing", expiresAt=4_102_444_800_000)
    for name in names:
        user = stack.user(Person(name, "", ""))
        assert (user["reason"], user["banExpiresAt"]) == ("griefing", 4_102_444_800_000)
