"""Decisions on Discord, against a stand-in for its API and with clicks signed by PyNaCl."""

from collections.abc import Iterator

import pytest

from tests.support.peers.discord import Discord, custom_ids, text_of
from tests.support.questions import TALK, WORDS, applies, asking, token_for
from tests.support.stack import MakeStack
from tests.support.team_chat import BASE_URL, OLIVIA_ON_DISCORD, TeamChatStack, make_team_chat_stack, say

RITA, STRANGER, ALICE_ON_DISCORD = "6000000000000000002", "6000000000000000009", "6000000000000000003"


@pytest.fixture(scope="module")
def discord() -> Iterator[Discord]:
    with Discord() as made:
        yield made


@pytest.fixture(scope="module")
def chat(make_stack: MakeStack, discord: Discord, tmp_path_factory: pytest.TempPathFactory) -> TeamChatStack:
    questions = asking(tmp_path_factory.mktemp("questions"))
    made = make_team_chat_stack(make_stack, discord, questions, tells=["name", "score", "answers", "signals"])
    made.link_olivia()
    return made


def test_ping(chat: TeamChatStack) -> None:
    reply = chat.send({"id": "1", "type": 1})
    assert (reply.status, reply.json) == (200, {"type": 1})
    assert reply.headers["Content-Type"].startswith("application/json")


def test_a_story(chat: TeamChatStack, discord: Discord) -> None:
    stack, alice = chat.stack, chat.stack.newcomer("alice")
    applied = applies(stack, alice, token_for(stack, TALK | WORDS))
    assert applied.status == 201, applied.text
    told = chat.open_message(alice)
    text = text_of(told)
    assert "wants to join" in text
    assert "50 of" in text
    assert "I like it" in text
    assert alice.email not in text
    [row] = told["components"]
    assert row["components"][-1]["url"] == f"{BASE_URL}/admin#queue?name={alice.name}"
    chat.give_discord_account(alice, ALICE_ON_DISCORD)

    assert say(chat.click(alice, "approve")) == f"You approved {alice.name.replace('_', chr(92) + '_')}."
    closed = chat.message_about(alice, "Approved by Olivia")
    assert not custom_ids(closed)
    assert stack.status(alice) == "approved"
    assert stack.authme.login(alice.name, alice.password)
    [audit] = stack.audits(alice, "user.approved")
    assert audit["operator"] == "Olivia (Discord)"
    discord.wait_for(lambda it: "your application was approved" in it["content"])
    second = discord.interaction(3, custom_ids(told)[0], OLIVIA_ON_DISCORD)
    assert "approved" in say(chat.send(second))
    assert len(stack.audits(alice, "user.approved")) == 1
