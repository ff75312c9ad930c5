"""Fifty requests at once for what may happen once: one effect, one audit entry, no internal error."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack, find_link_token
from tests.support.together import at_once

CROWDS = [50]


@pytest.fixture(params=CROWDS)
def many(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


def outcomes(replies: list[Reply]) -> Counter[tuple[int, str | None]]:
    return Counter((reply.status, reply.code) for reply in replies)


def count(stack: Stack, table: str, **columns: str) -> int:
    condition = " AND ".join(f"{name} = ?" for name in columns)
    [row] = our_database(stack).query(f"SELECT COUNT(*) AS n FROM {table} WHERE {condition}", tuple(columns.values()))
    return int(row["n"])


def test_one_name_goes_to_one(stack: Stack, many: int) -> None:
    """R48: each applicant has their own address and code."""
    name = stack.newcomer("name").name
    people = [stack.newcomer("rival") for _person in range(many)]
    codes = at_once([partial(stack.code_for, person.email) for person in people])
    replies = at_once(
        [partial(stack.register, person, code=code, username=name) for person, code in zip(people, codes, strict=True)]
    )
    found = outcomes(replies)
    overloaded = found.pop((503, "overloaded"), 0)  # more at once than may wait for a hash
    assert found == {(201, None): 1, (409, "username_taken"): many - 1 - overloaded}
    assert count(stack, "regsvc_user", username_key=name.lower()) == 1
    assert count(stack, "regsvc_audit", action="user.registered", target=name) == 1
    loser = next(number for number, reply in enumerate(replies) if reply.status == 409)
    assert stack.register(people[loser], code=codes[loser]).status == 201, "who lost the race keeps the code"


def test_one_address_and_its_code_make_one_user(stack: Stack, many: int) -> None:
    """R7 and R48: each applicant has chosen another name."""
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    rivals = [Person(f"{alice.name}_{number}", alice.email, alice.password) for number in range(many)]
    replies = at_once([partial(stack.register, rival, code=code) for rival in rivals])
    found = outcomes(replies)
    overloaded = found.pop((503, "overloaded"), 0)  # more at once than may wait for a hash
    assert found == {(201, None): 1, (422, "invalid_code"): many - 1 - overloaded}
    assert count(stack, "regsvc_user", email_key=alice.email) == 1
    registered = our_database(stack).query("SELECT target FROM regsvc_audit WHERE action = 'user.registered'")
    assert len({row["target"] for row in registered} & {rival.name for rival in rivals}) == 1


def test_one_link_sets_one_password(stack: Stack, many: int) -> None:
    """R26"""
    bob = stack.approved("bob")
    assert stack.post("/api/password/forgot", {"email": bob.email}).status == 200
    token = find_link_token(stack.smtp.wait_for(bob.email, 3).text)
    passwords = [f"bobs-new-secret-{number}" for number in range(many)]
    replies = at_once([reset_to(stack, token, password) for password in passwords])
    told = outcomes(replies)
    told[422, "invalid_token"] += told.pop((503, "overloaded"), 0)  # more passwords than may wait to be hashed
    assert told == {(200, None): 1, (422, "invalid_token"): many - 1}
    [winner] = [password for password, reply in zip(passwords, replies, strict=True) if reply.status == 200]
    assert stack.authme.login(bob.name, winner)
    assert count(stack, "regsvc_audit", action="user.password_changed", target=bob.name) == 1


def test_one_run_answers_all_who_ask_for_it(stack: Stack) -> None:
    """Calls before a run begins share it, so there are the one in progress and the one after it."""
    bob, token, many = stack.approved("bob"), stack.olivia(), 100
    our_database(stack).execute("UPDATE regsvc_user SET status = 'banned' WHERE username = ?", (bob.name,))
    replies = at_once([partial(stack.post, "/api/admin/sync", {}, token=token)] * many)
    assert {reply.status for reply in replies} == {200}
    assert len({reply.json["report"]["startedAt"] for reply in replies}) <= many // 5
    assert count(stack, "regsvc_audit", action="user.banned", target=bob.name) == 1
    assert not stack.authme.login(bob.name, bob.password)


def reset_to(stack: Stack, token: str, password: str) -> Callable[[], Reply]:
    return partial(stack.post, "/api/password/reset", {"token": token, "newPassword": password})
