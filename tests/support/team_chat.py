"""A stack whose team decides on Discord."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.support.authme.authme_database import DatabaseKind
from tests.support.daemon import Reply
from tests.support.our_tables import ago, our_database
from tests.support.peers.discord import CHANNEL, TOKEN, Discord, custom_ids, text_of
from tests.support.stack import MakeStack, Person, Stack

OLIVIA_ON_DISCORD = "6000000000000000001"
BASE_URL = "https://play.example.org"


class TeamChatStack:
    """`stack` with `discord`, where Olivia's account is linked by a code."""

    def __init__(self, stack: Stack, discord: Discord) -> None:
        self.stack = stack
        self.discord = discord

    def link_olivia(self) -> None:
        self.link(self.stack.olivia(), OLIVIA_ON_DISCORD)

    def link(self, admin_token: str, account: str) -> None:
        """Link an account as its person does: by a click, a form and a code."""
        self.enter(self.stack.chat_code(admin_token), account)

    def enter(self, code: str, account: str) -> None:
        """Enter a code on Discord."""
        form = self.send(self.discord.interaction(3, "link:0:", account)).json
        reply = self.send(self.discord.form(form, code.lower(), account)).json
        assert "From now on you decide here as" in reply["data"]["content"], reply

    def send(self, interaction: dict[str, Any], **options: Any) -> Reply:
        return self.discord.send(self.stack.daemon, interaction, **options)

    def message_about(self, person: Person, *parts: str) -> dict[str, Any]:
        """Return the message about an applicant, once there is one with these parts."""
        name = person.name.replace("_", r"\_")
        wanted = (name, *parts)
        return self.discord.wait_for(lambda message: all(part in text_of(message) for part in wanted))[1]

    def open_message(self, person: Person) -> dict[str, Any]:
        """Return the message with which one can decide about an applicant."""
        name = person.name.replace("_", r"\_")
        found = self.discord.wait_for(lambda it: name in text_of(it) and bool(custom_ids(it)))
        return found[1]

    def click(self, person: Person, verb: str, account: str = OLIVIA_ON_DISCORD, **changes: Any) -> Reply:
        return self.send(self.discord.click(self.open_message(person), verb, account, **changes))

    def give_discord_account(self, person: Person, account: str) -> None:
        """Link an account as players do."""
        ours = our_database(self.stack)
        [row] = ours.query("SELECT id FROM regsvc_user WHERE username = ?", (person.name,))
        ours.execute(
            "INSERT INTO regsvc_chat_link"
            " (user_id, claimed_account, platform, account_id, username, discriminator, token_hash, linked_at)"
            " VALUES (?, ?, 'discord', ?, 'alice', '0', ?, ?)",
            (row["id"], f"discord:{account}", account, f"no token {account}", ago(minutes=1)),
        )


def make_team_chat_stack(
    make_stack: MakeStack,
    discord: Discord,
    more: Mapping[str, Any] = MappingProxyType({}),
    *,
    kind: DatabaseKind = "sqlite",
    **keys: Any,
) -> TeamChatStack:
    """Return a running stack; `more`: further sections of its config, `keys`: further ones of the chat."""
    return TeamChatStack(make_stack(kind, config={**team_chat_config(discord, **keys), **more}), discord)


def team_chat_config(discord: Discord, **keys: Any) -> dict[str, Any]:
    """Return the config of a stack whose team decides on Discord; `keys`: further ones of the chat."""
    chat = {
        "platform": "discord",
        "token": TOKEN,
        "public_key": discord.public_key,
        "channel": CHANNEL,
        "api_url": discord.address,
        **keys,
    }
    return {"server": {"base_url": BASE_URL}, "team_chat": [chat]}


def say(reply: Reply) -> str:
    """Return a private answer; AssertionError if all can see it."""
    assert reply.status == 200, reply.text
    data = reply.json["data"]
    assert (reply.json["type"], data["flags"]) == (4, 64), reply.text
    content: str = data["content"]
    return content
