"""Olivia approves while the name is registered in the game: it is the applicant's in the end, or the reply says not."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.crash.brief_outage import Outage, file_busy, table_missing
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_link_token
from tests.support.together import at_once

pytestmark = pytest.mark.every_database

FOREIGN = "a foreign password"


def assert_is_the_owners(stack: Stack, person: Person) -> None:
    assert stack.authme.login(person.name, person.password)
    assert not stack.authme.login(person.name, FOREIGN)
    assert stack.login(person, FOREIGN).status == 401
    assert stack.user(person)["plugin"] == "synced"


def approved_while_away(stack: Stack, outage: Outage) -> Person:
    """Return a person who was approved during the outage, and whose name was registered in the game after it."""
    alice = stack.pending("alice")
    stack.olivia()  # logs in while her own row can be read
    with outage(stack):
        assert stack.decides("approve", alice).json["warnings"] == ["player_pending"]
    assert stack.authme.register(alice.name, FOREIGN)
    return alice


def test_a_registration_that_came_before_the_row_is_the_owners_after_a_sync(stack: Stack) -> None:
    alice = approved_while_away(stack, table_missing)
    assert stack.sync()["errors"] == []
    assert_is_the_owners(stack, alice)


def test_a_registration_after_a_busy_file_is_the_owners_after_a_sync(impatient: Stack) -> None:
    alice = approved_while_away(impatient, file_busy)
    assert impatient.sync()["errors"] == []
    assert_is_the_owners(impatient, alice)


def test_a_second_approval_gives_the_row_to_its_owner_as_well(stack: Stack) -> None:
    alice = approved_while_away(stack, table_missing)
    assert "warnings" not in stack.decides("approve", alice).json
    assert_is_the_owners(stack, alice)
    assert_refused(stack.decide("approve", alice), 409, "wrong_status")


def test_approvals_that_race_registrations_in_the_game_win(make_stack: MakeStack) -> None:
    stack = make_stack("mariadb")
    for _person in range(30):
        alice = stack.pending("alice")
        stack.olivia()  # logged in, so that both begin at the same moment
        calls: list[Callable[[], object]] = [
            partial(warnings_of_approval, stack, alice),
            partial(stack.authme.register, alice.name, FOREIGN),
        ]
        assert at_once(calls)[0] is None, alice
        assert_is_the_owners(stack, alice)


def warnings_of_approval(stack: Stack, person: Person) -> object:
    return stack.decides("approve", person).json.get("warnings")


def test_without_a_password_the_reply_says_that_the_row_stays_locked(stack: Stack) -> None:
    bob = stack.pending("bob", password=None)
    stack.authme.register(bob.name, FOREIGN)
    stack.sync()
    reply = stack.decides("approve", bob)
    assert (reply.json["status"], reply.json["warnings"]) == ("approved", ["player_locked"])
    assert not stack.authme.login(bob.name, FOREIGN)

    token = find_link_token(stack.smtp.wait_for(bob.email, 2).text)
    assert stack.post("/api/password/reset", {"token": token, "newPassword": bob.password}).status == 200
    assert_is_the_owners(stack, bob)
