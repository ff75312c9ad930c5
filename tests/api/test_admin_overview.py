"""GET /api/admin/overview: the review queue in figures."""

from typing import Any

import pytest

from tests.api.test_admin_user_role import with_role
from tests.support.authme.authme_database import DatabaseKind
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

PATH = "/api/admin/overview"


def overview(stack: Stack, token: str | None = None) -> dict[str, Any]:
    reply = stack.get(PATH, token=token or stack.olivia())
    assert reply.status == 200, reply.text
    found: dict[str, Any] = reply.json
    return found


def decided(found: dict[str, Any]) -> list[tuple[int, int]]:
    return [(day["approved"], day["rejected"]) for day in found["decided"]]


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_a_morning_at_the_queue(make_stack: MakeStack, kind: DatabaseKind) -> None:
    stack = make_stack(kind)
    found = overview(stack)
    assert (found["waiting"], found["asked"], found["oldest"], found["oldestSince"]) == (0, 0, None, None)
    assert found["usualSeconds"] is None
    assert decided(found) == [(0, 0)] * 7
    assert [day["day"] for day in found["decided"]] == sorted({day["day"] for day in found["decided"]})

    alice, bob, carol, dora = (stack.pending(name) for name in ("alice", "bob", "carol", "dora"))
    found = overview(stack)
    assert (found["waiting"], found["oldest"]) == (4, alice.name)
    assert found["oldestSince"] == stack.user(alice)["regTime"]

    stack.decides("ask", alice, question="Which Bob?")
    found = overview(stack)
    assert (found["waiting"], found["asked"], found["oldest"]) == (3, 1, bob.name)

    stack.decides("approve", bob)
    stack.decides("reject", carol)
    stack.decides("ban", dora)
    found = overview(stack)
    assert (found["waiting"], found["asked"], found["oldest"]) == (0, 1, None)
    assert decided(found) == [*[(0, 0)] * 6, (1, 1)], "a ban is neither"

    long_ago = "UPDATE regsvc_review SET reviewed_at = '2020-01-01 12:00:00.000' WHERE transition = 'approve'"
    our_database(stack).execute(long_ago)
    assert decided(overview(stack))[-1] == (0, 1)

    stack.decides("approve", carol)
    assert decided(overview(stack))[-1] == (1, 1), "who was rejected before, too"
    _rita, token = with_role(stack, "reviewer")
    assert overview(stack, token)["asked"] == 1


def test_it_is_for_the_team(stack: Stack) -> None:
    assert_refused(stack.get(PATH), 401, "unauthorized")
    token = stack.user_token(stack.approved("paul"))
    assert_refused(stack.get(PATH, token=token), 403, "forbidden")
