"""Memberships that last as long as a role on Discord, at a running daemon."""

from collections.abc import Iterator

import pytest

from tests.support.our_tables import ago, our_database
from tests.support.peers.discord import GUILD, PLAYER, SUPPORTER, TOKEN, Discord
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.watching import ask_until

ALICES = "90000000000000001"
LOOK = "/api/user/membership/look"


@pytest.fixture
def guild() -> Iterator[Discord]:
    with Discord() as made:
        made.members = {ALICES: {SUPPORTER}, "1": set()}
        yield made


@pytest.fixture
def stack(make_stack: MakeStack, guild: Discord) -> Stack:
    chat = {
        "platform": "discord",
        "client_id": "1",
        "client_secret": "secret",
        "profile_url": f"{guild.address}/users/@me",
        "guild_id": GUILD,
        "bot_token": TOKEN,
        "give_role_id": PLAYER,
    }
    return make_stack(config={"chat": chat, "membership": {"role_ids": [SUPPORTER]}})


def link(stack: Stack, person: Person, account: str) -> None:
    sql = (
        "INSERT INTO regsvc_chat_link (user_id, claimed_account, platform, account_id, username, discriminator, "
        "token_hash, linked_at) SELECT id, ?, 'discord', ?, 'alice', '0', ?, ? FROM regsvc_user WHERE username_key = ?"
    )
    our_database(stack).execute(sql, (f"discord:{account}", account, account, ago(days=1), person.key))


def test_the_role_that_is_back_lets_in_at_once(stack: Stack, guild: Discord) -> None:
    alice = stack.approved("alice")
    link(stack, alice, ALICES)
    stack.restart_with({})  # the job looks at once
    ask_until(lambda: guild.members[ALICES], lambda roles: PLAYER in roles)
    guild.members[ALICES] = {PLAYER}
    ours = our_database(stack)
    ours.execute("UPDATE regsvc_user SET ended_because = 'role' WHERE username_key = ?", (alice.key,))
    stack.sync()
    assert stack.authme.login(alice.name, alice.password) is False
    token = stack.user_token(alice)
    shown = stack.get("/api/user/status", {"username": alice.name}, token=token).json["data"]["membership"]
    assert (shown["state"], shown["because"]) == ("ended", "role")

    assert stack.post(LOOK, {}, token=token).json["membership"] == shown
    assert guild.members[ALICES] == set()
    guild.members[ALICES].add(SUPPORTER)
    seen = stack.post(LOOK, {}, token=token).json["membership"]
    assert (seen["state"], seen["because"]) == ("current", None)
    assert stack.authme.login(alice.name, alice.password)
    stack.post(LOOK, {}, token=token)
    assert_refused(stack.post(LOOK, {}, token=token), 429, "rate_limited")


def test_who_is_no_member_sees_none(stack: Stack) -> None:
    bob = stack.pending("bob")
    assert "membership" not in stack.post(LOOK, {}, token=stack.user_token(bob)).json
    assert_refused(stack.post(LOOK, {}), 401, "unauthorized")
