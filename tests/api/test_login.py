"""Logins of players and operators, their ends, and the tokens that they give."""

import re
import time
from typing import Any

import pytest

from regsvc.core.rights import Permission
from tests.support.authme.authme_like import long_ago
from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.forged_tokens import FORGERIES
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import TRANSLATIONS, assert_refused, refusal_words
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Person, Stack
from tests.support.watching import ask_until

# POST /api/login: which password opens which account, and what refusals reveal.


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
    assert stack.login(bob).json["status"] == "pending"  # the sync, which may have looked meanwhile, does the same
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


# POST /api/admin/login: which operators can log in, what refusals reveal, and what is audited.


TWELVE_HOURS = 12 * 3600 * 1000
MINUTE = 60_000


def enter(stack: Stack, person: Person, **fields: object) -> Reply:
    return stack.post("/api/admin/login", {"username": person.name, "password": person.password, **fields})


def audits(stack: Stack, action: str, **query: str) -> list[dict[str, Any]]:
    reply = stack.get("/api/admin/audits", {"action": action, **query}, token=stack.olivia())
    entries: list[dict[str, Any]] = reply.json["audits"]
    return entries


def test_an_operator_gets_an_admin_token(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    before = time.time() * 1000

    reply = enter(stack, oscar)

    payload = reply.json
    assert reply.status == 200
    assert set(payload) == {"success", "token", "expiresAt", "username", "email", "status", "isAdmin", "permissions"}
    assert (payload["username"], payload["email"], payload["status"]) == (oscar.name, oscar.email, "approved")
    assert payload["isAdmin"] is True
    assert abs(payload["expiresAt"] - before - TWELVE_HOURS) < MINUTE
    assert stack.get("/api/admin/users", token=payload["token"]).status == 200
    [entry] = audits(stack, "admin.logged_in", target=oscar.name)
    assert (entry["operator"], entry["ip"]) == (oscar.name, "127.0.0.1")


def test_an_operator_whom_only_authme_knows_is_adopted(stack: Stack, operators: Operators) -> None:
    otto = stack.newcomer("otto")
    operators.appoint(otto)
    long_ago(stack.authme.table).register(otto.name, otto.password, email=otto.email)
    assert stack.status(otto) is None

    assert enter(stack, Person(otto.name, otto.email, "a wrong one")).status == 401
    assert stack.status(otto) is None

    reply = enter(stack, otto)
    assert (reply.status, reply.json["username"], reply.json["status"]) == (200, otto.name, "approved")
    [entry] = stack.audits(otto, "user.adopted")
    assert entry["operator"] == "sync"


# R51
@pytest.mark.parametrize("approved_by", ["another operator", "the command line"])
def test_an_operator_who_registered_in_the_game_later_has_to_be_approved(
    stack: Stack, operators: Operators, approved_by: str
) -> None:
    otto = stack.newcomer("otto")
    operators.appoint(otto)
    stack.authme.register(otto.name, otto.password)

    refused = assert_refused(enter(stack, otto), 403, "not_operator")
    assert "not been approved" in refused["message"]
    assert stack.login(otto).json["status"] == "pending"
    assert (stack.status(otto), stack.user(otto)["isOperator"]) == ("pending", True)

    if approved_by == "the command line":
        approved = companion("users", "approve", otto.name, config=stack.daemon.config_file)
        assert (approved.status, f"{otto.name} is an operator" in approved.errors) == (0, True), approved
    else:
        stack.decides("approve", otto)
    reply = enter(stack, otto)
    assert (reply.status, reply.json["status"], reply.json["isAdmin"]) == (200, "approved", True)


# --- Refused ---


def test_a_user_is_told_he_is_no_operator_after_the_right_password_only(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(enter(stack, Person(bob.name, bob.email, "a wrong one")), 401, "bad_credentials")

    refused = enter(stack, bob, language="zh")
    assert_refused(refused, 403, "not_operator", language="zh")
    assert "token" not in refused.json
    assert enter(stack, bob).status == 403

    [entry] = audits(stack, "admin.denied", operator=bob.name)
    assert entry["detail"] == {"occurrences": 2}
    assert audits(stack, "admin.logged_in", target=bob.name) == []


def test_an_operators_name_is_not_enough_without_approval(stack: Stack, operators: Operators) -> None:
    for status in ("pending", "rejected"):
        olaf = stack.pending("olaf")
        if status == "rejected":
            stack.decides("reject", olaf)
        operators.appoint(olaf)
        assert_refused(enter(stack, olaf), 403, "not_operator")


def test_a_dismissed_operator_is_not_let_in(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    operators.dismiss(oscar)
    assert_refused(enter(stack, oscar), 403, "not_operator")
    operators.appoint(oscar, level=1)
    assert enter(stack, oscar).status == 200


def test_a_row_that_appeared_does_not_make_its_player_the_operator(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    stack.authme.unregister_from_console(oscar.name)
    stack.sync()
    stack.authme.register(oscar.name, "a foreign password")

    assert_refused(enter(stack, Person(oscar.name, oscar.email, "a foreign password")), 401, "bad_credentials")
    assert enter(stack, oscar).status == 200


# --- Limits and levels: stacks of their own ---


def test_an_operator_below_the_configured_level_is_none(make_stack: MakeStack) -> None:
    stack = make_stack(config={"auth": {"min_operator_level": 3}})
    oscar = stack.approved("oscar")
    stack.game.write_operators(OPERATOR, oscar.name, levels={oscar.name: 2})
    assert_refused(enter(stack, oscar), 403, "not_operator")
    stack.game.write_operators(OPERATOR, oscar.name, levels={oscar.name: 3})
    assert enter(stack, oscar).status == 200


def test_operators_may_be_named_in_the_config(make_stack: MakeStack) -> None:
    stack = make_stack(config={"game": {"operators": ["Oda"]}})
    long_ago(stack.authme.table).register("Oda", "odas-secret")
    reply = stack.post("/api/admin/login", {"username": "oda", "password": "odas-secret"})
    assert (reply.status, reply.json["username"], reply.json["isAdmin"]) == (200, "Oda", True)


# Whether an admin token is good: asked by the token itself (GET), or about one in the body (POST).


def test_a_good_token_says_whose_it_is_and_until_when(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    login = stack.post("/api/admin/login", {"username": oscar.name, "password": oscar.password}).json

    expected = {"success": True, "valid": True, "username": oscar.name, "expiresAt": login["expiresAt"]}
    expected["permissions"] = sorted(Permission)
    assert stack.get("/api/admin/verify", token=login["token"]).json == expected
    assert stack.post("/api/admin/verify", {"token": login["token"]}).json == expected
    # an old front end sends both
    assert stack.post("/api/admin/verify", {"token": login["token"]}, token=login["token"]).json == expected


def test_post_tells_of_a_bad_token_without_refusing_the_request(stack: Stack) -> None:
    def check(forgery: str) -> None:
        token = FORGERIES[forgery](stack, stack.olivia())
        for language in ("en", "zh"):
            reply = stack.post("/api/admin/verify", {"token": token, "language": language})
            body = reply.json
            assert (reply.status, body["success"], body["valid"], body["code"]) == (200, False, False, "unauthorized")
            assert body["message"] == refusal_words(body, language)
            assert "username" not in body

    assert_each(FORGERIES, check)


def test_post_tells_whether_the_right_is_there_now(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = stack.admin_token(oscar.name, oscar.password)

    def ask(token: str) -> tuple[bool, Any]:
        payload = stack.post("/api/admin/verify", {"token": token}).json
        return payload["success"], payload.get("code")

    assert ask(token) == (True, None)
    operators.dismiss(oscar)
    assert ask(token) in ((False, "forbidden"), (False, "unauthorized"))
    operators.appoint(oscar)
    ask_until(lambda: ask(token), lambda told: told == (False, "unauthorized"))  # it does not return with the right
    token = stack.admin_token(oscar.name, oscar.password)
    assert ask(token) == (True, None)
    assert ask(stack.user_token(oscar)) == (False, "forbidden")
    assert stack.post("/api/logout", {}, token=token).status == 200
    assert ask(token) == (False, "unauthorized")


def test_a_look_prolongs_nothing(stack: Stack) -> None:
    token = stack.olivia()
    ends = {stack.get("/api/admin/verify", token=token).json["expiresAt"] for _look in range(3)}
    assert len(ends) == 1
    assert stack.get("/api/admin/verify", token=token).json["username"] == OPERATOR


# POST /api/logout: one session ends, at once and for good.


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
