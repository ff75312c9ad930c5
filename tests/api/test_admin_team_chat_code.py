"""POST /api/admin/team-chat/code: a code that links a chat account to the member of the team who made it."""

from tests.api.test_admin_token_create import make_token
from tests.api.test_admin_user_role import with_role
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack

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
    bearer = make_token(stack, "bot", "users.review")
    assert stack.post(PATH, body, token=bearer).code == "forbidden"
