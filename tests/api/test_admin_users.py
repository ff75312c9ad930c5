"""GET /api/admin/users: the fields of the list, its filters, sorting and pages."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.each import assert_each
from tests.support.operators import create_olivia
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("sqlite")

MINUTE = 60_000
FIELDS = {
    "username",
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
    "rejections",
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
    assert user["isOperator"] is False
    payload = {"username", "email", "status", "regTime", "language", "platform", "plugin", "pluginSince", "rejections"}
    assert {user[name] for name in FIELDS - payload - {"isOperator"}} == {None}


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


def test_no_hash_or_key_is_in_the_list(stack: Stack) -> None:
    bob = stack.approved("bob")
    hash_ = stack.authme.get(bob.name)["password"]
    text = stack.get("/api/admin/users", {"size": "100"}, token=stack.olivia()).text
    for secret in (hash_, hash_[-20:], bob.password, "$SHA$", "!locked!"):
        assert secret not in text


# --- Pages ---


@pytest.fixture(scope="module")
def crowd(stack: Stack) -> list[Person]:
    """Seven people in the order in which they came; the third is approved, the fifth rejected, the sixth banned."""
    people = [stack.pending("crowd") for _number in range(7)]
    stack.decides("approve", people[2])
    stack.decides("reject", people[4])
    stack.decides("ban", people[5])
    return people


def test_numbered_pages(stack: Stack, crowd: list[Person]) -> None:
    expected = [person.name for person in reversed(crowd)]
    for size, pages in ((3, 3), (7, 1), (100, 1)):
        found: list[str] = []
        for number in range(1, pages + 1):
            page = ask(stack, search="crowd_", page=number, size=size)
            assert page["pagination"] == {
                "currentPage": number,
                "pageSize": size,
                "totalCount": 7,
                "totalPages": pages,
                "hasNext": number < pages,
                "hasPrev": number > 1,
            }
            found += names(page)
        assert found == expected


def test_a_page_past_the_end_is_empty(stack: Stack, crowd: list[Person]) -> None:
    for number in (2, 1000, 2**31 - 1):
        page = ask(stack, search="crowd_", page=number, size=10)
        assert page["users"] == []
        assert page["pagination"]["totalCount"] == 7
        assert (page["pagination"]["hasNext"], page["pagination"]["hasPrev"]) == (False, True)
        assert page["nextCursor"] is None


def test_the_first_twenty_are_the_newest(stack: Stack, crowd: list[Person]) -> None:
    page = ask(stack)
    assert (page["pagination"]["currentPage"], page["pagination"]["pageSize"]) == (1, 20)
    assert names(page) == names(ask(stack, sort="newest", page=1, size=20, status="all"))
    assert len(page["users"]) == min(20, page["pagination"]["totalCount"])


ORDERS: dict[str, Callable[[list[str]], list[str]]] = {
    "newest": lambda came: came[::-1],
    "oldest": lambda came: came,
    "name": lambda came: sorted(came, key=str.lower),
}


@pytest.mark.parametrize("sort", ORDERS)
def test_cursors_lead_to_everybody_once(stack: Stack, crowd: list[Person], sort: str) -> None:
    everybody = names(ask(stack, search="crowd_", sort=sort, size=100))
    assert sorted(everybody) == sorted(person.name for person in crowd)
    assert everybody == ORDERS[sort]([person.name for person in crowd])

    page = ask(stack, search="crowd_", sort=sort, size=3)
    found = names(page)
    while page["nextCursor"] is not None:
        page = ask(stack, search="crowd_", sort=sort, size=3, after=page["nextCursor"])
        assert page["pagination"]["hasPrev"] is True
        found += names(page)
    assert found == everybody
    assert page["pagination"]["hasNext"] is False


@pytest.mark.every_database
def test_a_newcomer_between_two_pages_moves_nothing(stack: Stack, crowd: list[Person]) -> None:
    first = ask(stack, search="crowd_", sort="oldest", size=4, status="pending")
    left = ask(stack, search="crowd_", sort="oldest", after=first["nextCursor"]) if first["nextCursor"] else None
    assert names(first) == [crowd[0].name, crowd[1].name, crowd[3].name, crowd[6].name]
    assert left is None


def test_a_cursor_and_a_number_exclude_each_other(stack: Stack, crowd: list[Person]) -> None:
    cursor = ask(stack, size=2)["nextCursor"]
    reply = stack.get("/api/admin/users", {"after": cursor, "page": "1"}, token=stack.olivia())
    assert_refused(reply, 422, "invalid_field", field="after")
    other_order = stack.get("/api/admin/users", {"after": cursor, "sort": "oldest"}, token=stack.olivia())
    assert_refused(other_order, 422, "invalid_field", field="after")


def test_a_parameter_given_twice_is_refused(stack: Stack) -> None:
    reply = stack.get("/api/admin/users?page=1&page=2", token=stack.olivia())
    assert_refused(reply, 422, "invalid_field", field="page")


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


def test_the_review_queue_is_oldest_first_and_a_hundred_long(stack: Stack, crowd: list[Person]) -> None:
    queue = ask(stack, status="pending")
    assert queue["pagination"]["pageSize"] == 100
    times = [user["regTime"] for user in queue["users"]]
    assert times == sorted(times)
    assert names(queue) == names(ask(stack, status="pending", sort="oldest", size=100))
    assert ask(stack, status="pending", size=2)["pagination"]["pageSize"] == 2
    assert names(ask(stack, status="pending", sort="newest", size=1)) == [names(queue)[-1]]


def test_it_filters_by_the_state_of_the_player(stack: Stack) -> None:
    bob, alice, ben = stack.approved("state"), stack.pending("state"), stack.approved("state")
    stack.decides("ban", ben)

    def found(plugin: str) -> list[str]:
        page = ask(stack, search="state_", plugin=plugin, sort="oldest")
        assert page["pagination"]["totalCount"] == len(page["users"])
        return names(page)

    assert found("synced") == [bob.name]
    assert found("absent") == [alice.name]
    assert found("locked") == [ben.name]
    assert found("returned") == found("conflict") == found("off") == []


@pytest.mark.every_database
def test_the_search_is_literal_and_knows_no_case(stack: Stack) -> None:
    odd = Person("Per_cent", "hundred%of@example.org", "a-secret-of-his")
    plain = Person("PerXcent", "hundredXof@example.org", "a-secret-of-his")
    for person in (odd, plain):
        assert stack.register(person).status == 201

    def found(search: str) -> set[str]:
        return set(names(ask(stack, search=search, size=100)))

    assert found("PER_CENT") == {odd.name}
    assert found("percent") == set()
    assert found("per%cent") == set()
    assert found("hundred%OF") == {odd.name}
    assert found("hundred_of") == set()
    assert found("hundredxof@EXAMPLE.org") == {plain.name}
    assert found("er") >= {odd.name, plain.name}
    for harmless in ("'", '"', "\\", "';--", "%27", "𝔘", "\u202e"):
        assert found(harmless) == set()


def test_a_large_crowd_is_paged_to_its_end(stack: Stack) -> None:
    """Past the middle the rows are sought from the far end."""
    ours = our_database(stack)
    for number in range(60):
        ours.execute(
            "INSERT INTO regsvc_user (username, username_key, status, applied_status, platform, origin, created_at,"
            " is_email_verified, token_generation) VALUES (?, ?, 'rejected', 'rejected', 'java', 'registered',"
            " '2026-01-01 00:00:00.000', 0, 0)",
            (f"Many{number:02}", f"many{number:02}"),
        )
    found = [name for number in range(1, 7) for name in names(ask(stack, search="many", page=number, size=10))]
    assert found == [f"Many{number:02}" for number in reversed(range(60))]
    ours.execute("DELETE FROM regsvc_user WHERE username_key LIKE ?", ("many%",))


def test_without_authme_every_player_is_off(make_stack: MakeStack) -> None:
    stack = make_stack(config={"authme": {"enabled": False}})
    create_olivia(stack)
    alice = stack.approved("alice")

    user = stack.user(alice)
    assert (user["status"], user["plugin"], user["pluginSince"]) == ("approved", "off", None)
    assert set(names(ask(stack, plugin="off"))) == {alice.name, OPERATOR}
    assert ask(stack, plugin="synced")["users"] == []


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
    "/api/admin/audits": [*PAGES, ("from", "yesterday"), ("from", "-1"), ("to", "253402300800000")],
    "/api/admin/mails": [*PAGES, ("state", "lost")],
}


@pytest.mark.parametrize("path", WRONG_PARAMETERS)
def test_it_names_the_parameter_that_is_wrong(stack: Stack, path: str) -> None:
    def check(wrong: tuple[str, str]) -> None:
        name, text = wrong
        reply = stack.get(path, {name: text, "language": "zh"}, token=stack.olivia())
        assert_refused(reply, 422, "invalid_field", field=name, language="zh")

    assert_each(WRONG_PARAMETERS[path], check)
