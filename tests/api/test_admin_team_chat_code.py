"""POST /api/admin/team-chat/code: a code that links a chat account to the member of the team who made it."""

from tests.support.our_tables import our_database
from tests.support.stack import Stack


def test_a_code_is_stored_as_a_hash_and_replaces_the_earlier_one(stack: Stack) -> None:
    codes = [stack.post("/api/admin/team-chat/code", {}, token=stack.olivia()).json["code"] for _ in range(2)]
    rows = our_database(stack).query("SELECT code_hash FROM regsvc_team_chat_link")
    assert len(set(codes)) == 2
    assert len(rows) == 1
    assert rows[0]["code_hash"] not in codes


def test_players_and_api_tokens_get_none(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert stack.post("/api/admin/team-chat/code", {}, token=stack.user_token(bob)).status == 403
    made = {"name": "bot", "permissions": ["users.review"]}
    bearer = stack.post("/api/admin/token/create", made, token=stack.olivia()).json["token"]
    assert stack.post("/api/admin/team-chat/code", {}, token=bearer).code == "forbidden"
