"""The main use case from end to end: Alice registers, Olivia reviews, Alice plays."""

import pytest

from tests.support.authme.authme_tables import find_player
from tests.support.stack import Stack, find_link_token

pytestmark = pytest.mark.every_database


def test_bob_gives_only_the_four_documented_fields(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    assert stack.register(bob, password=None).status == 201
    stack.decides("approve", bob)
    assert find_player(stack.table, bob.key) is None
    token = find_link_token(stack.smtp.wait_for(bob.email, 2).text)

    reply = stack.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert reply.status == 200, reply.text
    assert stack.authme.login(bob.name, bob.password)
    assert stack.login(bob).status == 200
    again = stack.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert (again.status, again.code) == (422, "invalid_token")
