"""Decisions about many at once: each in a transaction of its own, one result for each, and one reply."""

import pytest

from regsvc.core.i18n import load_translations
from tests.support.decisions import decide_on_many
from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack

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
