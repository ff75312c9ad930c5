"""GET /api/user/status: what became of a registration; the rest only for its owner and for admins."""

import pytest

from tests.support.daemon import Reply
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import MakeVillage, Village


def ask(village: Village, username: str, **options: object) -> Reply:
    return village.get("/api/user/status", {"username": username}, **options)


def test_a_strangers_question_is_answered_with_the_status_and_nothing_else(village: Village) -> None:
    rick = village.pending("rick")
    village.decides("reject", rick, reason="an ugly name")
    reply = ask(village, rick.name)
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "data": {"registered": True, "username": rick.name, "status": "rejected"},
    }


def test_another_users_token_tells_no_more(village: Village) -> None:
    alice, bob = village.pending("alice"), village.pending("bob")
    assert ask(village, alice.name, token=village.user_token(bob)).body == ask(village, alice.name).body


def test_a_name_nobody_has_is_not_registered(village: Village) -> None:
    for name in (village.newcomer("nobody").name, "x" * 5000, "😀", "%", "' OR 1=1 --"):
        reply = ask(village, name)
        assert (reply.status, reply.json["data"]) == (200, {"registered": False}), name


def test_a_player_is_registered_as_soon_as_he_is_adopted(village: Village) -> None:
    bob = village.newcomer("bob")
    village.authme.register(bob.name, bob.password)
    assert ask(village, bob.name).json["data"] == {"registered": False}
    village.sync()
    assert ask(village, bob.name).json["data"]["status"] == "pending"


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_the_owner_and_admins_are_told_the_rest(village: Village, who: str) -> None:
    rick = village.pending("rick")
    token = village.user_token(rick) if who == "owner" else village.olivia()
    before = ask(village, rick.key, token=token).json["data"]
    assert before == {
        "registered": True,
        "username": rick.name,
        "status": "pending",
        "email": rick.email,
        "reason": None,
        "reviewedAt": None,
        "banExpiresAt": None,
    }
    village.decides("reject", rick, reason="an ugly name")
    after = ask(village, rick.name, token=token).json["data"]
    assert (after["status"], after["reason"]) == ("rejected", "an ugly name")
    assert after["reviewedAt"] > 1_700_000_000_000


def test_an_admin_sees_when_a_ban_ends(village: Village) -> None:
    bert = village.approved("bert")
    village.decides("ban", bert, expiresAt=4_102_444_800_000)
    told = ask(village, bert.name, token=village.olivia()).json["data"]
    assert (told["status"], told["banExpiresAt"]) == ("banned", 4_102_444_800_000)


@pytest.mark.parametrize("parameter", ["token", "access_token", "Authorization"])
def test_a_token_in_the_query_is_no_token(village: Village, parameter: str) -> None:
    alice = village.pending("alice")
    query = {"username": alice.name, parameter: village.user_token(alice)}
    assert "email" not in village.get("/api/user/status", query).json["data"]


def test_a_bad_token_is_refused_even_here(village: Village) -> None:
    reply = ask(village, "alice", token="rubbish")
    assert_refused(reply, 401, "unauthorized")
    reply = village.get("/api/user/status", {"username": "alice", "language": "zh"}, token="rubbish")
    assert_refused(reply, 401, "unauthorized", language="zh")


@pytest.mark.parametrize("query", [{}, {"username": ""}, {"name": "alice"}])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_a_question_about_nobody(village: Village, query: dict[str, str], language: str) -> None:
    reply = village.get("/api/user/status", {**query, "language": language})
    assert_refused(reply, 422, "invalid_field", field="username", language=language)


def test_it_refuses_two_names_at_once(village: Village) -> None:
    assert_refused(village.get("/api/user/status?username=a&username=b"), 422, "invalid_field", field="username")


def test_head_is_answered_like_get_without_the_body(village: Village) -> None:
    reply = village.daemon.request("HEAD", "/api/user/status?username=alice")
    assert (reply.status, reply.body) == (200, b"")


# --- Limits ---


@pytest.fixture(scope="module")
def strict(make_village: MakeVillage) -> Village:
    return make_village(config={"http": {"status_limit": ["3 per minute"], "trusted_clients": ["192.0.2.0/28"]}})


def ask_from(village: Village, client: str, path: str = "/api/user/status", **query: str) -> Reply:
    return village.get(path, {"username": "alice", **query}, headers={"X-Forwarded-For": client})


def test_a_client_asks_so_often_on_both_routes_together(strict: Village) -> None:
    assert ask_from(strict, "198.51.100.1").status == 200
    assert ask_from(strict, "198.51.100.1").status == 200
    assert ask_from(strict, "198.51.100.1", "/api/review/status").status == 404
    told = assert_refused(ask_from(strict, "198.51.100.1", language="zh"), 429, "rate_limited", language="zh")
    assert 50 <= told["remainingSeconds"] <= 60
    assert ask_from(strict, "198.51.100.2").status == 200


def test_the_hosts_own_programs_ask_as_often_as_they_like(strict: Village) -> None:
    assert {ask_from(strict, "192.0.2.7").status for _question in range(10)} == {200}
    for _question in range(3):
        ask_from(strict, "192.0.2.16")
    assert_refused(ask_from(strict, "192.0.2.16"), 429, "rate_limited")


def test_lies_about_the_client_fill_one_bucket(make_village: MakeVillage) -> None:
    village = make_village(config={"http": {"status_limit": ["50 per minute"], "trusted_proxies": []}})
    replies = [ask_from(village, f"198.51.{number // 250}.{number % 250}") for number in range(300)]
    assert [reply.status for reply in replies] == [200] * 50 + [429] * 250


def test_a_limit_is_a_200_for_front_ends_that_want_it(make_village: MakeVillage) -> None:
    village = make_village(config={"http": {"status_limit": ["1 per minute"], "legacy_status": True}})
    assert ask(village, "alice").status == 200
    assert_refused_as_200(ask(village, "alice"), "rate_limited")
