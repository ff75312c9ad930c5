"""POST /api/admin/invitation/revoke: an invitation ends when it is revoked, and with its maker's right."""

from functools import partial

from tests.api.test_admin_invitation import invite
from tests.api.test_admin_token_create import make_token
from tests.api.test_admin_user_role import give, with_role
from tests.support.command_line import companion
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


def test_it_does_not_come_back_when_a_ban_of_its_maker_is_lifted(stack: Stack, operators: Operators) -> None:
    rita, ritas_token = with_role(stack, "reviewer")
    oscar, alice = operators.new("oscar", level=2), stack.newcomer("alice")
    tokens = [invite(stack, by=token)[1] for token in (ritas_token, stack.admin_token(oscar.name, oscar.password))]
    for maker in (rita, oscar):
        stack.decides("ban", maker)
        stack.decides("unban", maker)
    give(stack, rita, "reviewer")
    for token in tokens:
        assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")


def test_it_ends_with_the_api_token_that_made_it(stack: Stack) -> None:
    alice, config = stack.newcomer("alice"), stack.daemon.config_file
    made = companion("token", "create", "hosts-bot", "--may", "users.review", config=config)
    bots = {"olivias-bot": make_token(stack, "olivias-bot", "users.review"), "hosts-bot": made.output.split()[0]}
    for name, bot in bots.items():
        _id, kept = invite(stack, by=stack.olivia())
        _id, token = invite(stack, by=bot)
        shown = stack.post("/api/invitation/check", {"invitation": token})
        assert (shown.status, "cli:" in shown.json["madeBy"]) == (200, False)
        stack.post("/api/admin/token/revoke", {"name": name}, token=stack.olivia())
        assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
        assert stack.post("/api/invitation/check", {"invitation": kept}).status == 200
