"""POST /api/logout: one session ends, at once and for good."""

import pytest

from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeVillage, Village


def test_a_session_ends_and_the_others_stay(village: Village) -> None:
    alice = village.pending("alice")
    phone, desk = village.user_token(alice), village.user_token(alice)
    reply = village.post("/api/logout", {}, token=phone)
    assert (reply.status, reply.json) == (
        200,
        {"success": True, "message": TRANSLATIONS.text("message.logged_out", "en")},
    )
    assert_refused(village.post("/api/logout", {}, token=phone), 401, "unauthorized")
    assert village.post("/api/logout", token=desk).status == 200, "no body will do"
    assert [entry["operator"] for entry in village.audits(alice, "user.logged_out")] == [alice.name] * 2


def test_an_admin_logs_out_of_one_session(village: Village) -> None:
    token = village.admin_token(OPERATOR, OPERATORS_PASSWORD)
    assert village.post("/api/logout", {}, token=token).status == 200
    assert_refused(village.get("/api/admin/verify", token=token), 401, "unauthorized")
    assert village.get("/api/admin/verify", token=village.olivia()).status == 200


def test_a_session_outlives_a_restart_and_its_end_does_too(village: Village) -> None:
    alice = village.pending("alice")
    stays, ended = village.user_token(alice), village.user_token(alice)
    village.post("/api/logout", {}, token=ended)
    village.daemon.stop()
    village.daemon.start()
    assert_refused(village.post("/api/logout", {}, token=ended), 401, "unauthorized")
    assert village.post("/api/logout", {}, token=stays).status == 200


@pytest.mark.parametrize("deed", ["ban", "delete", "password"])
def test_a_ban_a_deletion_and_a_new_password_end_every_session(village: Village, deed: str) -> None:
    alice = village.approved("alice")
    tokens = [village.user_token(alice), village.user_token(alice)]
    village.decides(deed, alice, **({"password": "another-one"} if deed == "password" else {}))
    for token in tokens:
        assert_refused(village.post("/api/logout", {}, token=token), 401, "unauthorized")


@pytest.mark.parametrize("deed", ["approve", "reject"])
def test_a_review_ends_no_session(village: Village, deed: str) -> None:
    alice = village.pending("alice")
    token = village.user_token(alice)
    village.decides(deed, alice)
    assert village.post("/api/logout", {}, token=token).status == 200


def test_a_name_registered_anew_does_not_inherit_a_session(village: Village) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    village.decides("delete", alice)
    assert village.register(alice).status == 201
    assert_refused(village.post("/api/logout", {}, token=token), 401, "unauthorized")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_who_shows_no_token(village: Village, language: str) -> None:
    reply = village.post("/api/logout", {"language": language})
    assert_refused(reply, 401, "unauthorized", language=language)


@pytest.mark.parametrize("place", ["?token=", "?access_token=", "?Authorization=Bearer%20"])
def test_a_token_in_the_query_is_no_token(village: Village, place: str) -> None:
    token = village.user_token(village.pending("alice"))
    assert_refused(village.post(f"/api/logout{place}{token}", {"token": token}), 401, "unauthorized")
    in_cookie = village.post("/api/logout", {}, headers={"Cookie": f"token={token}; Authorization=Bearer {token}"})
    assert_refused(in_cookie, 401, "unauthorized")
    assert token not in "\n".join(village.daemon.log)
    assert village.post("/api/logout", {}, token=token).status == 200


def test_the_answer_is_in_the_owners_language(village: Village) -> None:
    alice = village.pending("alice", language="zh")
    reply = village.post("/api/logout", {}, token=village.user_token(alice))
    assert reply.json["message"] == TRANSLATIONS.text("message.logged_out", "zh")


def test_a_missing_token_keeps_its_status_under_legacy_status(make_village: MakeVillage) -> None:
    softened = make_village(config={"http": {"legacy_status": True}})
    reply = softened.post("/api/logout", {})
    assert assert_refused(reply, 401, "unauthorized")["msg"] == reply.json["message"]
