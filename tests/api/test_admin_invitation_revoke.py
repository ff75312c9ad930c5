"""POST /api/admin/invitation/revoke: an invitation ends when it is revoked, and with its maker's right."""

from functools import partial

from tests.api.test_admin_invitation import invite
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.watching import ask_until


def test_it_ends_with_its_makers_right(stack: Stack, operators: Operators) -> None:
    oscar, alice = operators.new("oscar"), stack.newcomer("alice")
    row_id, token = invite(stack, by=stack.admin_token(oscar.name, oscar.password))

    operators.dismiss(oscar)

    assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
    find = partial(our_database(stack).query, "SELECT revoked_at FROM regsvc_invitation WHERE id = ?", (row_id,))
    ask_until(lambda: find()[0]["revoked_at"], bool)  # the daemon notices within seconds
    operators.appoint(oscar)
    assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
