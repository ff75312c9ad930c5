"""POST /api/login: which password opens which account, and what refusals reveal."""

import re
import time

import pytest

from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Stack

pytestmark = pytest.mark.one_database("mariadb")

FREE_FAILURES = 5
THIRTY_DAYS = 30 * 24 * 3600


def log_in(stack: Stack, username: str, password: str, **fields: object) -> Reply:
    return stack.post("/api/login", {"username": username, "password": password, **fields})


# --- Who gets in ---


def test_alice_logs_in_and_uses_her_token(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = stack.login(alice)
    assert reply.status == 200
    payload = reply.json
    assert payload.keys() == {"success", "token", "expiresAt", "username", "email", "status", "isAdmin", "permissions"}
    assert (payload["username"], payload["email"], payload["status"]) == (alice.name, alice.email, "approved")
    assert payload["isAdmin"] is False
    assert abs(payload["expiresAt"] / 1000 - time.time() - THIRTY_DAYS) < 60
    assert stack.post("/api/logout", {}, token=payload["token"]).status == 200
    assert [entry["ip"] for entry in stack.audits(alice, "user.logged_in")] == ["127.0.0.1"]


@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_who_waits_or_was_rejected_logs_in_to_see_why(stack: Stack, status: str) -> None:
    rick = stack.pending("rick")
    if status == "rejected":
        stack.decides("reject", rick)
    assert stack.login(rick).json["status"] == status


def test_the_name_is_found_in_any_case_and_the_address_too(stack: Stack) -> None:
    alice = stack.pending("alice")
    for name in (alice.key, alice.name.upper(), f" {alice.name} ", alice.email, alice.email.upper()):
        reply = log_in(stack, name, alice.password)
        assert (reply.status, reply.json.get("username")) == (200, alice.name), name


def test_an_address_that_nobody_proved_is_no_name(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password, email=bob.email)
    stack.sync()
    assert_refused(log_in(stack, bob.email, bob.password), 401, "bad_credentials")
    assert log_in(stack, bob.name, bob.password).status == 200


def test_a_player_whom_only_authme_knows_is_adopted_after_a_right_password(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    assert_refused(stack.login(bob, "wrong-password"), 401, "bad_credentials")
    assert stack.status(bob) is None
    assert stack.login(bob).json["status"] == "pending"
    assert stack.authme.get(bob.name)["password"].startswith("!locked!"), "nobody approved bob yet"
    assert len(stack.audits(bob, "user.adopted")) == 1
    assert stack.login(bob).status == 200, "and the kept hash is bob's"


def test_a_password_changed_in_game_counts_from_the_next_login_on(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.authme.set_password(alice.name, "changed-in-game")
    assert_refused(stack.login(alice), 401, "bad_credentials")
    assert stack.login(alice, "changed-in-game").status == 200


@pytest.mark.parametrize("is_seen", [True, False], ids=["after a sync", "before a sync"])
def test_a_hash_from_a_row_that_appeared_is_never_believed(stack: Stack, is_seen: bool) -> None:
    """Alice left the game, and another player took the name there. Alice's own password on the web reclaims the row."""
    alice = stack.approved("alice")
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    stack.authme.register(alice.name, "foreign-password")
    if is_seen:
        stack.sync()
        assert stack.user(alice)["plugin"] == "returned"
    assert_refused(stack.login(alice, "foreign-password"), 401, "bad_credentials")

    assert stack.login(alice).status == 200
    assert stack.authme.login(alice.name, alice.password)
    assert not stack.authme.login(alice.name, "foreign-password")
    assert stack.user(alice)["plugin"] == "synced"


def test_an_operator_is_told_so(stack: Stack) -> None:
    assert log_in(stack, OPERATOR, OPERATORS_PASSWORD).json["isAdmin"] is True


# --- Who does not ---


@pytest.mark.parametrize("path", ["/api/login", "/api/admin/login"])
def test_a_wrong_password_and_an_unknown_name_have_one_answer(stack: Stack, path: str) -> None:
    names = (stack.pending("alice").name, OPERATOR, stack.newcomer("nobody").name, "é" * 300, "@", "\u202e")
    body = {"password": "wrong-password", "language": "zh"}
    replies = [stack.post(path, {"username": name, **body}) for name in names]
    for reply in replies:
        assert_refused(reply, 401, "bad_credentials", language="zh")
        assert (reply.body, steady_headers(reply)) == (replies[0].body, steady_headers(replies[0]))


def steady_headers(reply: Reply) -> list[tuple[str, str]]:
    return [(name, value) for name, value in reply.headers.items() if name.lower() not in ("date", "x-request-id")]


def test_a_password_nobody_could_have_is_just_wrong(stack: Stack) -> None:
    for password in ("x" * 257, "x" * 6_000, "pässword", "\u202e", " " * 40):
        assert_refused(stack.login(stack.newcomer("alice"), password), 401, "bad_credentials")


def test_a_name_nobody_could_have_is_just_unknown(stack: Stack) -> None:
    names = ["x" * 5000, "İ" * 255, "😀", "ﬀ", "%", "a' OR '1'='1", "a@b@c", "@", " ", "a\tb"]
    assert_each(names, lambda name: assert_refused(log_in(stack, name, "password-1"), 401, "bad_credentials"))


@pytest.mark.parametrize("field", ["username", "password"])
def test_missing_credentials_are_no_failed_login(stack: Stack, field: str) -> None:
    alice = stack.pending("alice")
    body = {"username": alice.name, "password": alice.password, "language": "zh"}
    for _try in range(FREE_FAILURES + 2):
        left_out = {name: value for name, value in body.items() if name != field}
        assert_refused(stack.post("/api/login", left_out), 422, "invalid_field", field=field, language="zh")
        emptied = stack.post("/api/login", {**body, field: ""})
        assert_refused(emptied, 422, "invalid_field", field=field, language="zh")
    assert stack.login(alice).status == 200


def test_a_ban_is_told_only_after_a_right_password(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.decides("ban", alice, reason="griefing", expiresAt=4_102_444_800_000)
    assert_refused(stack.login(alice, "wrong-password"), 401, "bad_credentials")
    reply = log_in(stack, alice.name, alice.password, language="zh")
    payload = assert_refused(reply, 403, "banned", language="zh")
    assert (payload["reason"], payload["banExpiresAt"]) == ("griefing", 4_102_444_800_000)


def test_a_locked_players_lock_is_no_password(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.decides("ban", alice)
    lock = stack.authme.get(alice.name)["password"]
    for secret in (lock, lock.removeprefix("!locked!")):
        assert_refused(stack.login(alice, secret), 401, "bad_credentials")


# --- Delays ---


def fail(stack: Stack, person: Person, times: int, client: str) -> list[Reply]:
    headers = {"X-Forwarded-For": client}
    body = {"username": person.name, "password": "wrong-password"}
    return [stack.post("/api/login", body, headers=headers) for _try in range(times)]


@pytest.mark.parametrize("is_known", [True, False], ids=["a user", "nobody"])
def test_failures_delay_an_account_whoever_they_come_from(stack: Stack, is_known: bool) -> None:
    person = stack.pending("alice") if is_known else stack.newcomer("nobody")
    for number in range(FREE_FAILURES):
        assert fail(stack, person, 1, f"198.51.100.{number}")[0].status == 401
    sixth, seventh = fail(stack, person, 2, "198.51.100.9")
    assert sixth.status == 401
    assert assert_refused(seventh, 429, "rate_limited")["remainingSeconds"] == 1


# R17
def test_other_clients_do_not_delay_a_client_the_account_knows(stack: Stack) -> None:
    alice = stack.pending("alice")
    at_home = {"X-Forwarded-For": "203.0.113.50"}
    credentials = {"username": alice.name, "password": alice.password}
    assert stack.post("/api/login", credentials, headers=at_home).status == 200
    fail(stack, alice, FREE_FAILURES + 1, "198.51.100.1")
    assert_refused(stack.post("/api/login", credentials), 429, "rate_limited")
    assert stack.post("/api/login", credentials, headers=at_home).status == 200
    assert stack.post("/api/login", credentials).status == 200, "and a right login clears the delay"


def test_failures_are_counted_in_one_entry_without_what_was_typed(stack: Stack) -> None:
    alice = stack.pending("alice")
    for _try in range(3):
        log_in(stack, alice.name, "wrong-password")
    rows = our_database(stack).query(
        "SELECT occurrences, detail FROM regsvc_audit WHERE action = 'user.login_failed' AND target = ?", (alice.name,)
    )
    assert sum(row["occurrences"] for row in rows) == 3
    assert len(rows) <= 2, "one, or two around a full hour"
    log_in(stack, "my-password-in-the-wrong-field", "x")
    assert "my-password-in-the-wrong-field" not in str(our_database(stack).query("SELECT * FROM regsvc_audit"))


def test_no_token_stands_anywhere(stack: Stack) -> None:
    token = stack.user_token(stack.pending("alice"))
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token)
    signature = token.rpartition(".")[2]
    assert signature not in "\n".join(stack.daemon.log)
    assert signature not in str(our_database(stack).query("SELECT * FROM regsvc_session"))
