"""POST /api/logout: one session ends, at once and for good."""

import pytest

from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Stack

pytestmark = pytest.mark.one_database("sqlite")


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
    assert [entry["operator"] for entry in stack.audits(alice, "user.logged_out")] == [alice.name] * 2


def test_an_admin_logs_out_of_one_session(stack: Stack) -> None:
    token = stack.admin_token(OPERATOR, OPERATORS_PASSWORD)
    assert stack.post("/api/logout", {}, token=token).status == 200
    assert_refused(stack.get("/api/admin/verify", token=token), 401, "unauthorized")
    assert stack.get("/api/admin/verify", token=stack.olivia()).status == 200


def test_a_session_outlives_a_restart_and_its_end_does_too(stack: Stack) -> None:
    alice = stack.pending("alice")
    stays, ended = stack.user_token(alice), stack.user_token(alice)
    stack.post("/api/logout", {}, token=ended)
    stack.daemon.stop()
    stack.daemon.start()
    assert_refused(stack.post("/api/logout", {}, token=ended), 401, "unauthorized")
    assert stack.post("/api/logout", {}, token=stays).status == 200


@pytest.mark.parametrize("deed", ["ban", "delete", "password"])
def test_a_ban_a_deletion_and_a_new_password_end_every_session(stack: Stack, deed: str) -> None:
    alice = stack.approved("alice")
    tokens = [stack.user_token(alice), stack.user_token(alice)]
    stack.decides(deed, alice, **({"password": "another-one"} if deed == "password" else {}))
    for token in tokens:
        assert_refused(stack.post("/api/logout", {}, token=token), 401, "unauthorized")


@pytest.mark.parametrize("deed", ["approve", "reject"])
def test_a_review_ends_no_session(stack: Stack, deed: str) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    stack.decides(deed, alice)
    assert stack.post("/api/logout", {}, token=token).status == 200


def test_a_name_registered_anew_does_not_inherit_a_session(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    stack.decides("delete", alice)
    assert stack.register(alice).status == 201
    assert_refused(stack.post("/api/logout", {}, token=token), 401, "unauthorized")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_who_shows_no_token(stack: Stack, language: str) -> None:
    reply = stack.post("/api/logout", {"language": language})
    assert_refused(reply, 401, "unauthorized", language=language)


@pytest.mark.parametrize("place", ["?token=", "?access_token=", "?Authorization=Bearer%20"])
def test_a_token_in_the_query_is_no_token(stack: Stack, place: str) -> None:
    token = stack.user_token(stack.pending("alice"))
    assert_refused(stack.post(f"/api/logout{place}{token}", {"token": token}), 401, "unauthorized")
    in_cookie = stack.post("/api/logout", {}, headers={"Cookie": f"token={token}; Authorization=Bearer {token}"})
    assert_refused(in_cookie, 401, "unauthorized")
    assert token not in "\n".join(stack.daemon.log)
    assert stack.post("/api/logout", {}, token=token).status == 200


def test_the_answer_is_in_the_owners_language(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh")
    reply = stack.post("/api/logout", {}, token=stack.user_token(alice))
    assert reply.json["message"] == TRANSLATIONS.text("message.logged_out", "zh")


def test_a_missing_token_keeps_its_status_under_legacy_status(make_stack: MakeStack) -> None:
    softened = make_stack(config={"http": {"legacy_status": True}})
    reply = softened.post("/api/logout", {})
    assert assert_refused(reply, 401, "unauthorized")["msg"] == reply.json["message"]
