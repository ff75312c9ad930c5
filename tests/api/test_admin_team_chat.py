"""GET /api/admin/team-chat: the accounts on chat platforms that act for members of the team."""

from collections.abc import Iterator

import pytest

from tests.support.peers.discord import Discord
from tests.support.stack import MakeStack
from tests.support.team_chat import TeamChatStack, make_team_chat_stack


@pytest.fixture(scope="module")
def chat(make_stack: MakeStack) -> Iterator[TeamChatStack]:
    with Discord() as discord:
        yield make_team_chat_stack(make_stack, discord)


def test_reviewers_see_their_own_account_and_operators_all(chat: TeamChatStack) -> None:
    stack, rita = chat.stack, chat.stack.approved("rita")
    stack.decides("role", rita, role="reviewer")
    ritas_token = stack.admin_token(rita.name, rita.password)
    chat.link_olivia()
    chat.link(ritas_token, "6000000000000000002")
    seen = stack.get("/api/admin/team-chat", token=stack.olivia()).json
    assert seen["platforms"] == ["discord"]
    assert [(it["username"], it["platform"]) for it in seen["accounts"]] == [
        ("Olivia", "discord"),
        (rita.name, "discord"),
    ]
    own = stack.get("/api/admin/team-chat", token=ritas_token).json["accounts"]
    assert [it["username"] for it in own] == [rita.name]
    assert stack.get("/api/admin/team-chat", token=stack.user_token(rita)).status == 403
