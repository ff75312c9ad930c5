"""POST /api/user/sessions/end: Alice ends one of her sessions."""

import pytest

from tests.support.refusals import assert_refused
from tests.support.stack import Stack

pytestmark = pytest.mark.one_database("mariadb")

LIST, END = "/api/user/sessions", "/api/user/sessions/end"


def test_alice_ends_the_session_she_left_open(stack: Stack) -> None:
    alice, bob = stack.approved("alice"), stack.approved("bob")
    left_open, here, bobs = stack.user_token(alice), stack.user_token(alice), stack.user_token(bob)
    [current, other] = stack.get(LIST, token=here).json["sessions"]
    assert [(one["isCurrent"], one["audience"], one["ip"]) for one in (current, other)] == [
        (True, "user", "127.0.0.1"),
        (False, "user", "127.0.0.1"),
    ]
    assert_refused(stack.post(END, {"session": other["id"]}, token=bobs), 404, "session_not_found", field="session")
    assert stack.post(END, {"session": other["id"]}, token=here).status == 200
    assert_refused(stack.get(LIST, token=left_open), 401, "unauthorized")
    assert_refused(stack.post(END, {"session": other["id"]}, token=here), 404, "session_not_found", field="session")
    assert stack.post(END, {"session": current["id"]}, token=here).status == 200
    assert_refused(stack.get(LIST, token=here), 401, "unauthorized")
    assert [entry["operator"] for entry in stack.audits(alice, "user.session_ended")] == [alice.name] * 2
