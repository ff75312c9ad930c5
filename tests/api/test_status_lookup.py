"""The status of a registration: details only for its owner and for admins."""

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import ago, our_database
from tests.support.questions import proof_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack
from tests.support.together import at_once

# GET /api/user/status: the status of a registration; details only for its owner and for admins.


def ask(stack: Stack, username: str, **options: object) -> Reply:
    return stack.get("/api/user/status", {"username": username}, **options)


def test_an_anonymous_request_gets_the_status_and_nothing_else(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="an ugly name")
    reply = ask(stack, rick.name)
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "data": {"registered": True, "username": rick.name, "status": "rejected"},
    }


def test_fifty_questions_at_once_get_an_answer_each(stack: Stack) -> None:
    people = [stack.newcomer("alice"), stack.pending("bob"), stack.approved("carol"), stack.newcomer("dave")]
    answers: list[str | None] = at_once([lambda who=person: stack.status(who) for person in people * 13])  # type: ignore[misc]
    assert answers == [None, "pending", "approved", None] * 13


def test_another_users_token_tells_no_more(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    assert ask(stack, alice.name, token=stack.user_token(bob)).body == ask(stack, alice.name).body


def test_a_name_nobody_has_is_not_registered(stack: Stack) -> None:
    for name in (stack.newcomer("nobody").name, "x" * 5000, "😀", "%", "' OR 1=1 --"):
        reply = ask(stack, name)
        assert (reply.status, reply.json["data"]) == (200, {"registered": False}), name


def test_a_player_is_registered_as_soon_as_he_is_adopted(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    assert ask(stack, bob.name).json["data"] == {"registered": False}
    stack.sync()
    assert ask(stack, bob.name).json["data"]["status"] == "pending"


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_the_owner_and_admins_are_told_the_rest(stack: Stack, who: str) -> None:
    rick = stack.pending("rick")
    token = stack.user_token(rick) if who == "owner" else stack.olivia()
    before = ask(stack, rick.key, token=token).json["data"]
    assert before == {
        "registered": True,
        "username": rick.name,
        "status": "pending",
        "email": rick.email,
        "canBeMailed": True,
        "reason": None,
        "reviewedAt": None,
        "banExpiresAt": None,
    }
    stack.decides("reject", rick, reason="an ugly name")
    after = ask(stack, rick.name, token=token).json["data"]
    assert (after["status"], after["reason"]) == ("rejected", "an ugly name")
    assert after["reviewedAt"] > 1_700_000_000_000
    assert after["reapplyAt"] == after["reviewedAt"] + 24 * 60 * 60 * 1000


@pytest.mark.parametrize("path", ["/api/user/status", "/api/review/status"])
def test_who_may_register_is_told_when_a_rejected_name_is_free(stack: Stack, path: str) -> None:
    rick, eve = stack.pending("rick"), stack.newcomer("eve")
    stack.decides("reject", rick, reason="an ugly name")
    proof = proof_for(stack, eve)

    def keys(headers: dict[str, str]) -> set[str]:
        payload = stack.get(path, {"username": rick.name}, headers=headers).json
        return set(payload.get("data", payload)) - {"success", "registered"}

    assert keys({"X-Address-Proof": proof}) == {"username", "status", "reapplyAt"}
    assert (
        keys({}) == keys({"X-Address-Proof": f"{proof}0"}) == keys({"X-Address-Proof": "é"}) == {"username", "status"}
    )
    our_database(stack).execute(
        "UPDATE regsvc_user SET reviewed_at = ? WHERE username_key = ?", (ago(hours=24, seconds=1), rick.key)
    )
    assert keys({"X-Address-Proof": proof}) == {"username", "status"}


def test_a_reason_of_our_own_is_in_the_readers_language(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="an ugly name")
    for table in ("regsvc_user", "regsvc_review"):
        our_database(stack).execute(
            f"UPDATE {table} SET reason = 'name_taken_in_game' WHERE username_key = ?", (rick.key,)
        )
    told = stack.get("/api/user/status", {"username": rick.name, "language": "zh"}, token=stack.user_token(rick))
    assert told.json["data"]["reason"].startswith("这个用户名已属于游戏中的一位玩家")
    shown = stack.get("/api/admin/user", {"username": rick.name}, token=stack.olivia()).json["user"]
    for reason in (shown["reason"], shown["history"][0]["reason"]):
        assert reason.startswith("This name already belongs to a player")


def test_an_admin_sees_when_a_ban_ends(stack: Stack) -> None:
    bert = stack.approved("bert")
    stack.decides("ban", bert, expiresAt=4_102_444_800_000)
    payload = ask(stack, bert.name, token=stack.olivia()).json["data"]
    assert (payload["status"], payload["banExpiresAt"]) == ("banned", 4_102_444_800_000)


# --- Limits ---


@pytest.fixture(scope="module")
def strict(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"status_limit": ["3 per minute"], "trusted_clients": ["192.0.2.0/28"]}})


def ask_from(stack: Stack, client: str, path: str = "/api/user/status", **query: str) -> Reply:
    return stack.get(path, {"username": "alice", **query}, headers={"X-Forwarded-For": client})


def test_a_client_asks_so_often_on_all_routes_together(strict: Stack) -> None:
    assert ask_from(strict, "198.51.100.1").status == 200
    assert ask_from(strict, "198.51.100.1").status == 200
    assert ask_from(strict, "198.51.100.1", "/api/review/status").status == 404
    payload = assert_refused(ask_from(strict, "198.51.100.1", language="zh"), 429, "rate_limited", language="zh")
    assert 50 <= payload["remainingSeconds"] <= 60
    body, client = {"username": "alice"}, {"X-Forwarded-For": "198.51.100.1"}
    assert_refused(strict.post("/api/register/check", body, headers=client), 429, "rate_limited")
    assert_refused(strict.get("/api/user/export", token=strict.olivia(), headers=client), 429, "rate_limited")
    assert ask_from(strict, "198.51.100.2").status == 200


def test_the_hosts_own_programs_ask_as_often_as_they_like(strict: Stack) -> None:
    assert {ask_from(strict, "192.0.2.7").status for _question in range(10)} == {200}
    for _question in range(3):
        ask_from(strict, "192.0.2.16")
    assert_refused(ask_from(strict, "192.0.2.16"), 429, "rate_limited")


# GET /api/review/status: like the user's status, but an unknown name is a refusal.


def ask_review(stack: Stack, username: str, **options: object) -> Reply:
    return stack.get("/api/review/status", {"username": username}, **options)


def test_an_anonymous_client_gets_the_status_and_nothing_else(stack: Stack) -> None:
    alice = stack.pending("alice")
    expected = {"success": True, "username": alice.name, "status": "pending"}
    assert ask_review(stack, alice.name.upper()).json == expected
    stack.decides("approve", alice, reason="welcome")
    assert ask_review(stack, alice.name).json == expected | {"status": "approved"}
    stack.decides("ban", alice, reason="griefing")
    assert ask_review(stack, alice.name).json == expected | {"status": "banned"}


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_a_review_tells_its_owner_and_admins_the_rest(stack: Stack, who: str) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="an ugly name")
    token = stack.user_token(rick) if who == "owner" else stack.olivia()
    payload = ask_review(stack, rick.name, token=token).json
    public = {"success", "username", "status"}
    about = public | {"email", "canBeMailed", "reason", "reviewedAt", "banExpiresAt", "reapplyAt"}
    assert payload.keys() == about
    assert (payload["email"], payload["reason"], payload["banExpiresAt"]) == (rick.email, "an ugly name", None)
    assert payload["reviewedAt"] > 1_700_000_000_000


def test_a_name_nobody_has_is_not_found(stack: Stack) -> None:
    query = {"username": stack.newcomer("nobody").name, "language": "zh"}
    reply = stack.get("/api/review/status", query)
    assert_refused(reply, 404, "user_not_found", field="username", language="zh")


def test_an_owners_answer_is_in_the_language_of_the_registration(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh")
    reply = stack.get("/api/review/status", {"username": "nobody_at_all"}, token=stack.user_token(alice))
    assert_refused(reply, 404, "user_not_found", field="username", language="zh")
