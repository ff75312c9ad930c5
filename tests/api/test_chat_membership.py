"""GET /api/chat/callback with `chat.guild_id` and `chat.role_ids`, which restrict who can link an account."""

import pytest

from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.daemon import Reply
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack


@pytest.fixture(scope="module")
def gated(make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    return make_chat_stack(make_stack, provider, chat={"guild_id": "900", "role_ids": ["701", "702"]})


def come_with(gated: ChatStack, guilds: dict[str, list[str]]) -> tuple[Browser, Reply]:
    alice = gated.browser(gated.person(guilds=guilds))
    return alice, alice.open_callback(alice.consent(alice.begin().auth_url))


def test_a_member_with_one_of_the_roles_is_let_in(gated: ChatStack) -> None:
    alice, reply = come_with(gated, {"900": ["1", "702"], "901": []})
    assert reply.status == 200
    assert gated.links(alice)


@pytest.mark.parametrize(
    ("guilds", "fault"),
    [
        ({}, "not_in_guild"),
        ({"901": ["701"]}, "not_in_guild"),
        ({"900": []}, "lacks_role"),
        ({"900": ["7012", "70"]}, "lacks_role"),
    ],
)
def test_everybody_else_is_told_what_lacks(gated: ChatStack, guilds: dict[str, list[str]], fault: str) -> None:
    alice, reply = come_with(gated, guilds)
    assert assert_refused(reply, 409, "chat_not_member")["fault"] == fault
    assert not gated.links(alice)


def test_without_roles_every_member_is_let_in(make_stack: MakeStack, provider: OAuthServer) -> None:
    open_guild = make_chat_stack(make_stack, provider, chat={"guild_id": "900"})
    _alice, reply = come_with(open_guild, {"900": []})
    assert reply.status == 200
    _bob, reply = come_with(open_guild, {})
    assert_refused(reply, 409, "chat_not_member")
