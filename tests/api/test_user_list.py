"""GET /api/admin/users: the fields of the list, its filters, sorting and pages."""

import time
from typing import Any

import pytest

from tests.support.each import assert_each
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack

MINUTE = 60_000
FIELDS = {
    "username",
    "role",
    "email",
    "status",
    "regTime",
    "language",
    "platform",
    "reason",
    "reviewedBy",
    "reviewedAt",
    "banExpiresAt",
    "chat",
    "discordId",
    "questionnaireScore",
    "questionnairePassed",
    "questionnaireReviewSummary",
    "questionnaireRequiresReview",
    "questionnaireUnread",
    "decisions",
    "rejections",
    "waitingFor",
    "membership",
    "answeredAt",
    "signals",
    "allowlist",
    "plugin",
    "pluginSince",
    "lastLogin",
    "isOperator",
}


def ask(stack: Stack, **query: object) -> dict[str, Any]:
    """A page that is there."""
    reply = stack.get("/api/admin/users", {name: str(value) for name, value in query.items()}, token=stack.olivia())
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def names(page: dict[str, Any]) -> list[str]:
    return [user["username"] for user in page["users"]]


def is_now(milliseconds: int) -> bool:
    return abs(milliseconds - time.time() * 1000) < MINUTE


# --- A line ---


def test_a_line_tells_all_but_what_is_secret(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh", platform="java")

    user = stack.user(alice)
    assert set(user) == FIELDS
    assert (user["username"], user["email"], user["status"]) == (alice.name, alice.email, "pending")
    assert (user["language"], user["platform"], user["plugin"]) == ("zh", "java", "absent")
    assert is_now(user["regTime"])
    assert is_now(user["pluginSince"])
    assert user["rejections"] == {"count": 0, "lastAt": None, "lastReason": None}
    assert (user["isOperator"], user["allowlist"]) == (False, "off")
    payload = {"username", "email", "status", "regTime", "language", "platform", "plugin", "pluginSince", "rejections"}
    assert {
        user[name] for name in FIELDS - payload - {"isOperator", "allowlist", "signals", "waitingFor", "decisions"}
    } == {None}


def test_a_line_follows_what_happens(stack: Stack) -> None:
    bob = stack.approved("bob")
    user = stack.user(bob)
    assert (user["status"], user["plugin"], user["reviewedBy"]) == ("approved", "synced", "Olivia")
    assert is_now(user["reviewedAt"])
    assert user["lastLogin"] is None

    stack.user_token(bob)
    assert is_now(stack.user(bob)["lastLogin"])

    end = round(time.time() * 1000) + 3_600_000
    stack.decides("ban", bob, reason="griefing", expiresAt=end)
    user = stack.user(bob)
    assert (user["status"], user["plugin"], user["reason"], user["banExpiresAt"]) == (
        "banned",
        "locked",
        "griefing",
        end,
    )

    stack.decides("unban", bob)
    user = stack.user(bob)
    assert (user["status"], user["plugin"], user["reason"], user["banExpiresAt"]) == ("approved", "synced", None, None)

    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    assert stack.user(bob)["plugin"] == "absent"
    stack.authme.register(bob.name, "a foreign password")
    stack.sync()
    assert stack.user(bob)["plugin"] == "returned"


# --- Pages ---


@pytest.fixture(scope="module")
def crowd(stack: Stack) -> list[Person]:
    """Seven people in the order in which they came; the third is approved, the fifth rejected, the sixth banned."""
    people = [stack.pending("crowd") for _number in range(7)]
    stack.decides("approve", people[2])
    stack.decides("reject", people[4])
    stack.decides("ban", people[5])
    return people


# --- Filters ---


def test_it_filters_by_status(stack: Stack, crowd: list[Person]) -> None:
    def found(status: str) -> list[str]:
        page = ask(stack, search="crowd_", status=status, sort="oldest")
        assert page["pagination"]["totalCount"] == len(page["users"])
        assert status == "all" or {user["status"] for user in page["users"]} == {status}
        return names(page)

    assert found("approved") == [crowd[2].name]
    assert found("rejected") == [crowd[4].name]
    assert found("banned") == [crowd[5].name]
    assert found("pending") == [crowd[number].name for number in (0, 1, 3, 6)]
    assert len(found("all")) == 7


# --- Wrong parameters, also of the other lists ---

PAGES = [("page", text) for text in ("0", "-1", "one", "1.5", "9" * 30)] + [("size", text) for text in ("0", "101")]
WRONG_PARAMETERS: dict[str, list[tuple[str, str]]] = {
    "/api/admin/users": [
        *PAGES,
        ("status", "deleted"),
        ("status", "Pending"),
        ("plugin", "on"),
        ("sort", "id; DROP TABLE regsvc_user"),
        *(("after", cursor) for cursor in ("garbage", "bmV3ZXN0OmFiYw", "bmFtZTphbGljZQ")),
    ],
    "/api/admin/audits": [
        *PAGES,
        *(("action", never_recorded) for never_recorded in ("user.baned", "USER.BANNED", "ban")),
        *(("from", "yesterday"), ("from", "-1"), ("to", "253402300800000")),
    ],
    "/api/admin/mails": [*PAGES, ("state", "lost")],
}


@pytest.mark.parametrize("path", WRONG_PARAMETERS)
def test_it_names_the_parameter_that_is_wrong(stack: Stack, path: str) -> None:
    def check(wrong: tuple[str, str]) -> None:
        name, text = wrong
        reply = stack.get(path, {name: text, "language": "zh"}, token=stack.olivia())
        assert_refused(reply, 422, "invalid_field", field=name, language="zh")

    assert_each(WRONG_PARAMETERS[path], check)
