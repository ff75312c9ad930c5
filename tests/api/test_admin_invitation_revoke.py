"""POST /api/admin/invitation/revoke: an invitation ends when it is revoked, and with its maker's right."""

import time
from functools import partial

from tests.api.test_admin_invitation import invite
from tests.api.test_admin_token_create import make_token
from tests.api.test_admin_user_role import give, with_role
from tests.support.command_line import companion
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack, find_link_token
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


def make_bots(stack: Stack, *more: str) -> dict[str, str]:
    """Return the API tokens of a bot of Olivia's and of one of the host's, which may review and make links."""
    may = ("users.review", "users.manage")
    given = [word for name in may for word in ("--may", name)]
    made = companion("token", "create", "hosts-bot", *given, *more, config=stack.daemon.config_file)
    return {"olivias-bot": make_token(stack, "olivias-bot", *may), "hosts-bot": made.output.split()[0]}


def make_link(stack: Stack, person: Person, by: str) -> tuple[str, float]:
    """Return the token of a link that sets a password, and the seconds until it ends."""
    made = stack.post("/api/admin/user/password-link", {"username": person.name}, token=by)
    assert made.status == 200, made.text
    return find_link_token(made.json["link"]), made.json["expiresAt"] / 1000 - time.time()


def test_links_end_with_the_api_token_that_made_them(stack: Stack) -> None:
    alice, bob, carla = stack.newcomer("alice"), stack.approved("bob"), stack.approved("carla")
    for name, bot in make_bots(stack).items():
        _id, kept = invite(stack, by=stack.olivia())
        _id, token = invite(stack, by=bot)
        (password_link, _seconds), (other, _seconds) = (
            make_link(stack, bob, bot),
            make_link(stack, carla, stack.olivia()),
        )
        shown = stack.post("/api/invitation/check", {"invitation": token})
        assert (shown.status, "cli:" in shown.json["madeBy"]) == (200, False)
        stack.post("/api/admin/token/revoke", {"name": name}, token=stack.olivia())
        assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
        assert stack.post("/api/invitation/check", {"invitation": kept}).status == 200
        refused = stack.post("/api/password/reset", {"token": password_link, "newPassword": "the-bots-password"})
        assert_refused(refused, 422, "invalid_token", field="token")
        assert stack.post("/api/password/reset", {"token": other, "newPassword": "carlas-new-one"}).status == 200


def test_what_an_api_token_makes_does_not_outlive_it(stack: Stack) -> None:
    """Its end is known from the beginning."""
    bot, bob = make_bots(stack, "--expires", "10 minutes")["hosts-bot"], stack.approved("bob")
    row_id, _token = invite(stack, by=bot)
    listed = stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"]
    [ends_at] = [it["expiresAt"] / 1000 for it in listed if it["id"] == row_id]
    assert 0 < ends_at - time.time() <= 600
    assert 0 < make_link(stack, bob, bot)[1] <= 600
