"""GET /api/user/sessions: where Alice is logged in."""

from tests.support.our_tables import our_database
from tests.support.stack import Stack

LIST = "/api/user/sessions"


def test_what_a_session_is_called_is_no_part_of_its_token(stack: Stack) -> None:
    """Those who see the list could otherwise make a token, if they ever got our signing key."""
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    [session] = stack.get(LIST, token=token).json["sessions"]
    [exported] = stack.get("/api/user/export", token=token).json["sessions"]
    assert exported["id"] == session["id"]
    rows = our_database(stack).query("SELECT jti FROM regsvc_session")
    assert not any(session["id"] in row["jti"] for row in rows)
