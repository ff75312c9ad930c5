"""Accounts on chat platforms that act for members of the team."""

from collections.abc import Iterator

import pytest

from tests.api.test_team import with_role
from tests.api.test_team_credentials import make_token
from tests.support.our_tables import ago, our_database
from tests.support.peers.discord import Discord
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.team_chat import TeamChatStack, make_team_chat_stack

# GET /api/admin/team-chat: the accounts on chat platforms that act for members of the team.


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


# POST /api/admin/team-chat/code: a code that links a chat account to the member of the team who made it.


PATH = "/api/admin/team-chat/code"


def test_a_code_is_stored_as_a_hash_and_replaces_the_earlier_one(stack: Stack) -> None:
    codes = [stack.chat_code(stack.olivia()) for _ in range(2)]
    rows = our_database(stack).query("SELECT code_hash FROM regsvc_team_chat_link")
    assert len(set(codes)) == 2
    assert len(rows) == 1
    assert rows[0]["code_hash"] not in codes


def test_it_outlives_the_session_and_needs_the_password_and_its_maker_is_mailed(stack: Stack) -> None:
    rita, ritas = with_role(stack, "reviewer")
    assert_refused(stack.post(PATH, {}, token=ritas), 422, "current_password_needed", field="currentPassword")
    wrong = stack.post(PATH, {"currentPassword": "a-guess"}, token=ritas)
    assert_refused(wrong, 422, "wrong_password", field="currentPassword")
    stack.chat_code(ritas)
    assert stack.smtp.wait_for(rita.email, 1, counts=lambda letter: "chat account that enters it" in letter.text)


def test_players_and_api_tokens_get_none(stack: Stack) -> None:
    bob = stack.approved("bob")
    body = {"currentPassword": bob.password}
    assert stack.post(PATH, body, token=stack.user_token(bob)).status == 403
    bearer = make_token(stack, "chats-bot", "users.review")
    assert stack.post(PATH, body, token=bearer).code == "forbidden"


# POST /api/admin/team-chat/unlink: a chat account that acts for nobody any more.


UNLINK = "/api/admin/team-chat/unlink"


def link(stack: Stack, person: Person, account: str) -> None:
    ours = our_database(stack)
    [row] = ours.query("SELECT id FROM regsvc_user WHERE username = ?", (person.name,))
    ours.execute(
        "INSERT INTO regsvc_team_chat_link (user_id, platform, account, name, created_at, linked_at)"
        " VALUES (?, 'discord', ?, 'rita', ?, ?)",
        (row["id"], f"discord:{account}", ago(seconds=0), ago(seconds=0)),
    )


def test_members_end_their_own_link_and_operators_any(stack: Stack) -> None:
    rita, rob = stack.approved("rita"), stack.approved("rob")
    for person, account in ((rita, "61"), (rob, "62")):
        stack.decides("role", person, role="reviewer")
        link(stack, person, account)
    body, ritas = {"username": rob.name, "platform": "discord"}, stack.admin_token(rita.name, rita.password)
    assert stack.post(UNLINK, body, token=ritas).json["permission"] == "team.manage"
    assert stack.post(UNLINK, {**body, "username": rita.name}, token=ritas).status == 200
    assert stack.post(UNLINK, body, token=stack.olivia()).status == 200
    assert stack.post(UNLINK, body, token=stack.olivia()).code == "user_not_found"
    [audit] = stack.audits(rob, "team_chat.unlinked")
    assert audit["operator"] == "Olivia"
    assert stack.get("/api/admin/team-chat", token=stack.olivia()).json["accounts"] == []
