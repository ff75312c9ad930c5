"""POST /api/admin/token/revoke: a token ends at once, once."""

from tests.api.test_admin_token_create import make_token
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.together import at_once


def test_forty_who_revoke_end_it_once(stack: Stack) -> None:
    token, olivia = make_token(stack, "bot", "users.read"), stack.olivia()

    replies = at_once([lambda: stack.post("/api/admin/token/revoke", {"name": "bot"}, token=olivia)] * 40)

    assert sorted(reply.status for reply in replies) == [200] + [404] * 39
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    tokens = stack.get("/api/admin/team", token=olivia).json["tokens"]
    [shown] = [it for it in tokens if it["name"] == "bot"]
    assert shown["revokedAt"] is not None
    assert shown["madeBy"] == "Olivia"
