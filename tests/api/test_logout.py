"""POST /api/logout: one session ends, at once and for good."""

import pytest

from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import Stack


def test_a_session_ends_and_the_others_stay(stack: Stack) -> None:
    alice = stack.pending("alice")
    phone, computer = stack.user_token(alice), stack.user_token(alice)
    reply = stack.post("/api/logout", {}, token=phone)
    assert (reply.status, reply.json) == (
        200,
        {"success": True, "message": TRANSLATIONS.text("message.logged_out", "en")},
    )
    assert_refused(stack.post("/api/logout", {}, token=phone), 401, "unauthorized")
    assert stack.post("/api/logout", token=computer).status == 200, "no body will do"
    entries = stack.audits(alice, "user.logged_out")
    assert {entry["operator"] for entry in entries} == {alice.name}
    assert sum((entry["detail"] or {}).get("occurrences", 1) for entry in entries) == 2, "one entry for an hour"


def test_a_session_outlives_a_restart_and_its_end_does_too(stack: Stack) -> None:
    alice = stack.pending("alice")
    stays, ended = stack.user_token(alice), stack.user_token(alice)
    stack.post("/api/logout", {}, token=ended)
    stack.daemon.stop()
    stack.daemon.start()
    assert_refused(stack.post("/api/logout", {}, token=ended), 401, "unauthorized")
    assert stack.post("/api/logout", {}, token=stays).status == 200


@pytest.mark.parametrize("deed", ["approve", "reject"])
def test_a_review_ends_no_session(stack: Stack, deed: str) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    stack.decides(deed, alice)
    assert stack.post("/api/logout", {}, token=token).status == 200
