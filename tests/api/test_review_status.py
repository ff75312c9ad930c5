"""GET /api/review/status: the same as the user's status, but a name nobody has is a refusal."""

import pytest

from tests.support.daemon import Reply
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import MakeVillage, Village


def ask(village: Village, username: str, **options: object) -> Reply:
    return village.get("/api/review/status", {"username": username}, **options)


def test_a_stranger_is_told_the_status_and_nothing_else(village: Village) -> None:
    alice = village.pending("alice")
    expected = {"success": True, "username": alice.name, "status": "pending"}
    assert ask(village, alice.name.upper()).json == expected
    village.decides("approve", alice, reason="welcome")
    assert ask(village, alice.name).json == expected | {"status": "approved"}
    village.decides("ban", alice, reason="griefing")
    assert ask(village, alice.name).json == expected | {"status": "banned"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_the_owner_and_admins_are_told_the_rest(village: Village, who: str) -> None:
    rick = village.pending("rick")
    village.decides("reject", rick, reason="an ugly name")
    token = village.user_token(rick) if who == "owner" else village.olivia()
    told = ask(village, rick.name, token=token).json
    assert told.keys() == {"success", "username", "status", "email", "reason", "reviewedAt", "banExpiresAt"}
    assert (told["email"], told["reason"], told["banExpiresAt"]) == (rick.email, "an ugly name", None)
    assert told["reviewedAt"] > 1_700_000_000_000


def test_an_ended_session_is_refused(village: Village) -> None:
    alice = village.pending("alice")
    token = village.user_token(alice)
    village.post("/api/logout", {}, token=token)
    assert_refused(ask(village, alice.name, token=token), 401, "unauthorized")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_name_nobody_has_is_not_found(village: Village, language: str) -> None:
    query = {"username": village.newcomer("nobody").name, "language": language}
    reply = village.get("/api/review/status", query)
    assert_refused(reply, 404, "user_not_found", field="username", language=language)


@pytest.mark.parametrize("name", ["x" * 5000, "😀", "%", "_", "' OR 1=1 --", "a\u0301"])
def test_odd_names_are_names_nobody_has(village: Village, name: str) -> None:
    assert_refused(ask(village, name), 404, "user_not_found", field="username")


@pytest.mark.parametrize("change", [" {}", "{}\u00a0", "{}\u0301"])
def test_a_name_that_only_looks_like_one_is_another(village: Village, change: str) -> None:
    alice = village.pending("alice")
    assert_refused(ask(village, change.format(alice.name)), 404, "user_not_found", field="username")


def test_an_owners_answer_is_in_the_language_of_the_registration(village: Village) -> None:
    alice = village.pending("alice", language="zh")
    reply = village.get("/api/review/status", {"username": "nobody_at_all"}, token=village.user_token(alice))
    assert_refused(reply, 404, "user_not_found", field="username", language="zh")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_a_question_about_nobody(village: Village, language: str) -> None:
    reply = village.get("/api/review/status", {"language": language})
    assert_refused(reply, 422, "invalid_field", field="username", language=language)


def test_a_query_that_is_no_text_is_malformed(village: Village) -> None:
    assert_refused(village.get("/api/review/status?username=%ff"), 400, "malformed_request")
    assert_refused(village.get("/api/review/status?username=a%00b"), 400, "malformed_request")


def test_not_found_is_a_200_for_front_ends_that_want_it(make_village: MakeVillage) -> None:
    softened = make_village(config={"http": {"legacy_status": True}})
    assert assert_refused_as_200(ask(softened, "nobody"), "user_not_found")["field"] == "username"
    assert_refused(softened.get("/api/nothing/here"), 404, "unknown_path")
    assert_refused(ask(softened, "nobody", token="rubbish"), 401, "unauthorized")
