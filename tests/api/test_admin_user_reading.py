"""POST /api/admin/user/reading: who else has an applicant open."""

import pytest

from tests.api.test_admin_user_role import with_role
from tests.support.refusals import assert_refused
from tests.support.stack import Stack

PATH = "/api/admin/user/reading"


def test_two_read_one_application(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    rita, token = with_role(stack, "reviewer")
    assert stack.post(PATH, {"username": alice.name}, token=stack.olivia()).json["readers"] == []
    assert stack.post(PATH, {"username": alice.name}, token=token).json["readers"] == ["Olivia"]
    assert stack.post(PATH, {"username": alice.name}, token=stack.olivia()).json["readers"] == [rita.name]
    assert stack.post(PATH, {"username": bob.name}, token=token).json["readers"] == []
    assert stack.post(PATH, {"username": alice.name}, token=stack.olivia()).json["readers"] == []
    stack.post(PATH, {"username": ""}, token=stack.olivia())


@pytest.mark.every_database
def test_a_name_that_nobody_can_have(stack: Stack) -> None:
    """In lower case it is longer."""
    assert stack.post(PATH, {"username": "\u0130" * 255}, token=stack.olivia()).json["readers"] == []


def test_players_are_not_told(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = stack.post(PATH, {"username": alice.name}, token=stack.user_token(alice))
    assert_refused(reply, 403, "forbidden")
