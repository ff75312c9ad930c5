"""POST /api/register, concurrently: a code, a name and an address each belong to one registration."""

from collections import Counter
from functools import partial

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import our_database, tries_of
from tests.support.stack import Stack
from tests.support.together import at_once

pytestmark = pytest.mark.every_database

MANY = 50


def outcomes(replies: list[Reply]) -> Counter[tuple[int, str | None]]:
    return Counter((reply.status, reply.code) for reply in replies)


def test_one_name_goes_to_one_of_many(stack: Stack) -> None:
    name = stack.newcomer("name").name
    people = [stack.newcomer("rival") for _person in range(MANY)]
    codes = [stack.code_for(person.email) for person in people]
    replies = at_once(
        [
            partial(stack.register, person, code=code, username=name.upper() if number % 2 else name)
            for number, (person, code) in enumerate(zip(people, codes, strict=True))
        ]
    )
    assert outcomes(replies) == {(201, None): 1, (409, "username_taken"): MANY - 1}
    assert len(our_database(stack).query("SELECT id FROM regsvc_user WHERE username_key = ?", (name.lower(),))) == 1

    loser, code = next(
        (person, code) for person, code, reply in zip(people, codes, replies, strict=True) if reply.status == 409
    )
    assert stack.register(loser, code=code).status == 201, "who lost the race keeps the code"


def test_of_many_wrong_tries_at_once_five_count_and_the_code_is_dead(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    wrong = [f"{(int(code) + number) % 1_000_000:06}" for number in range(1, MANY + 1)]
    replies = at_once([partial(stack.register, alice, code=guess) for guess in wrong])
    assert outcomes(replies) == {(422, "invalid_code"): MANY}
    assert tries_of(stack, alice.email) == 5
    assert stack.register(alice, code=code).code == "invalid_code"


def test_a_right_code_among_wrong_ones_counts_no_try(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    guesses = [*(f"{(int(code) + number) % 1_000_000:06}" for number in range(1, 5)), code]
    replies = at_once([partial(stack.register, alice, code=guess) for guess in guesses])
    assert outcomes(replies) == {(422, "invalid_code"): 4, (201, None): 1}
