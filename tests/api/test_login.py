"""POST /api/login: which password opens which account, and what a stranger can learn from a refusal."""

import re
import time
from itertools import count

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Village
from tests.support.together import assert_alike, median_seconds

ROUNDS = 100  # of two tries each
CLOSE_TOGETHER = 0.005  # seconds between the medians
FREE_FAILURES = 5
THIRTY_DAYS = 30 * 24 * 3600


def log_in(village: Village, username: str, password: str, **fields: object) -> Reply:
    return village.post("/api/login", {"username": username, "password": password, **fields})


# --- Who gets in ---


def test_alice_logs_in_and_uses_her_token(village: Village) -> None:
    alice = village.approved("alice")
    reply = village.login(alice)
    assert reply.status == 200
    told = reply.json
    assert told.keys() == {"success", "token", "expiresAt", "username", "email", "status", "isAdmin"}
    assert (told["username"], told["email"], told["status"]) == (alice.name, alice.email, "approved")
    assert told["isAdmin"] is False
    assert abs(told["expiresAt"] / 1000 - time.time() - THIRTY_DAYS) < 60
    assert village.post("/api/logout", {}, token=told["token"]).status == 200
    assert [entry["ip"] for entry in village.audits(alice, "user.logged_in")] == ["127.0.0.1"]


@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_who_waits_or_was_rejected_logs_in_to_see_why(village: Village, status: str) -> None:
    rick = village.pending("rick")
    if status == "rejected":
        village.decides("reject", rick)
    assert village.login(rick).json["status"] == status


def test_the_name_is_found_in_any_case_and_the_address_too(village: Village) -> None:
    alice = village.pending("alice")
    for name in (alice.key, alice.name.upper(), f" {alice.name} ", alice.email, alice.email.upper()):
        reply = log_in(village, name, alice.password)
        assert (reply.status, reply.json.get("username")) == (200, alice.name), name


def test_an_address_that_nobody_proved_is_no_name(village: Village) -> None:
    bob = village.newcomer("bob")
    village.authme.register(bob.name, bob.password, email=bob.email)
    village.sync()
    assert_refused(log_in(village, bob.email, bob.password), 401, "bad_credentials")
    assert log_in(village, bob.name, bob.password).status == 200


def test_a_player_whom_only_authme_knows_is_adopted_after_a_right_password(village: Village) -> None:
    bob = village.newcomer("bob")
    village.authme.register(bob.name, bob.password)
    assert_refused(village.login(bob, "wrong-password"), 401, "bad_credentials")
    assert village.status(bob) is None
    assert village.login(bob).json["status"] == "pending"
    assert village.authme.get(bob.name)["password"].startswith("!locked!"), "nobody approved bob yet"
    assert len(village.audits(bob, "user.adopted")) == 1
    assert village.login(bob).status == 200, "and the kept hash is bob's"


def test_a_password_changed_in_game_counts_from_the_next_login_on(village: Village) -> None:
    alice = village.approved("alice")
    village.authme.set_password(alice.name, "changed-in-game")
    assert_refused(village.login(alice), 401, "bad_credentials")
    assert village.login(alice, "changed-in-game").status == 200


@pytest.mark.parametrize("is_seen", [True, False], ids=["after a sync", "before a sync"])
def test_a_hash_from_a_row_that_appeared_is_never_believed(village: Village, is_seen: bool) -> None:
    """Alice left the game; somebody takes her name there. Her own password on the web opens the row for her."""
    alice = village.approved("alice")
    village.authme.unregister_from_console(alice.name)
    village.sync()
    village.authme.register(alice.name, "strangers-password")
    if is_seen:
        village.sync()
        assert village.user(alice)["plugin"] == "returned"
    assert_refused(village.login(alice, "strangers-password"), 401, "bad_credentials")

    assert village.login(alice).status == 200
    assert village.authme.login(alice.name, alice.password)
    assert not village.authme.login(alice.name, "strangers-password")
    assert village.user(alice)["plugin"] == "synced"


def test_an_operator_is_told_so(village: Village) -> None:
    assert log_in(village, OPERATOR, OPERATORS_PASSWORD).json["isAdmin"] is True


# --- Who does not ---


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_wrong_password_and_an_unknown_name_have_one_answer(village: Village, language: str) -> None:
    alice = village.pending("alice")
    wrong = log_in(village, alice.name, "wrong-password", language=language)
    unknown = log_in(village, village.newcomer("nobody").name, "wrong-password", language=language)
    assert_refused(wrong, 401, "bad_credentials", language=language)
    assert wrong.body == unknown.body
    assert steady_headers(wrong) == steady_headers(unknown)


def steady_headers(reply: Reply) -> list[tuple[str, str]]:
    return [(name, value) for name, value in reply.headers.items() if name.lower() not in ("date", "x-request-id")]


def test_they_take_the_same_time(village: Village) -> None:
    """Strangers are delayed from the sixth failure on, so each name fails four times at most."""

    def measure() -> dict[str, float]:
        people = [village.pending("alice") for _person in range(ROUNDS // 4 + 1)]
        numbers = count()
        return median_seconds(
            {
                "wrong": lambda: village.login(people[next(numbers) // 4], "wrong-password"),
                "unknown": lambda: village.login(village.newcomer("nobody")),
            },
            ROUNDS,
        )

    assert_alike(measure, CLOSE_TOGETHER)


@pytest.mark.parametrize("password", ["x" * 257, "x" * 60_000, "pässword", "\u202e", " " * 40])
def test_a_password_nobody_could_have_is_just_wrong(village: Village, password: str) -> None:
    alice = village.pending("alice")
    assert_refused(village.login(alice, password), 401, "bad_credentials")


@pytest.mark.parametrize("name", ["x" * 5000, "İ" * 255, "😀", "ﬀ", "%", "a' OR '1'='1", "a@b@c", "@", " ", "a\tb"])
def test_a_name_nobody_could_have_is_just_unknown(village: Village, name: str) -> None:
    assert_refused(log_in(village, name, "password-1"), 401, "bad_credentials")


@pytest.mark.parametrize("field", ["username", "password"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_missing_credentials_are_no_failed_login(village: Village, field: str, language: str) -> None:
    alice = village.pending("alice")
    body = {"username": alice.name, "password": alice.password, "language": language}
    for _try in range(FREE_FAILURES + 2):
        left_out = {name: value for name, value in body.items() if name != field}
        assert_refused(village.post("/api/login", left_out), 422, "invalid_field", field=field, language=language)
        emptied = village.post("/api/login", {**body, field: ""})
        assert_refused(emptied, 422, "invalid_field", field=field, language=language)
    assert village.login(alice).status == 200


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_ban_is_told_only_after_a_right_password(village: Village, language: str) -> None:
    alice = village.approved("alice")
    village.decides("ban", alice, reason="griefing", expiresAt=4_102_444_800_000)
    assert_refused(village.login(alice, "wrong-password"), 401, "bad_credentials")
    reply = log_in(village, alice.name, alice.password, language=language)
    told = assert_refused(reply, 403, "banned", language=language)
    assert (told["reason"], told["banExpiresAt"]) == ("griefing", 4_102_444_800_000)


def test_a_name_that_was_deleted_is_unknown(village: Village) -> None:
    alice = village.approved("alice")
    village.decides("delete", alice)
    assert_refused(village.login(alice), 401, "bad_credentials")


def test_a_locked_players_lock_is_no_password(village: Village) -> None:
    alice = village.approved("alice")
    village.decides("ban", alice)
    lock = village.authme.get(alice.name)["password"]
    for secret in (lock, lock.removeprefix("!locked!")):
        assert_refused(village.login(alice, secret), 401, "bad_credentials")


# --- Delays ---


def fail(village: Village, person: Person, times: int, client: str) -> list[Reply]:
    headers = {"X-Forwarded-For": client}
    body = {"username": person.name, "password": "wrong-password"}
    return [village.post("/api/login", body, headers=headers) for _try in range(times)]


@pytest.mark.parametrize("is_known", [True, False], ids=["a user", "nobody"])
def test_failures_delay_an_account_whoever_they_come_from(village: Village, is_known: bool) -> None:
    person = village.pending("alice") if is_known else village.newcomer("nobody")
    for number in range(FREE_FAILURES):
        assert fail(village, person, 1, f"198.51.100.{number}")[0].status == 401
    sixth, seventh = fail(village, person, 2, "198.51.100.9")
    assert sixth.status == 401
    assert assert_refused(seventh, 429, "rate_limited")["remainingSeconds"] == 1


# R17
def test_strangers_do_not_hold_up_a_client_the_account_knows(village: Village) -> None:
    alice = village.pending("alice")
    at_home = {"X-Forwarded-For": "203.0.113.50"}
    credentials = {"username": alice.name, "password": alice.password}
    assert village.post("/api/login", credentials, headers=at_home).status == 200
    fail(village, alice, FREE_FAILURES + 1, "198.51.100.1")
    assert_refused(village.post("/api/login", credentials), 429, "rate_limited")
    assert village.post("/api/login", credentials, headers=at_home).status == 200
    assert village.post("/api/login", credentials).status == 200, "and a right login clears the delay"


def test_a_client_is_known_for_thirty_days(village: Village) -> None:
    alice = village.pending("alice")
    village.user_token(alice)
    changed = our_database(village).execute(
        "UPDATE regsvc_known_client SET last_login_at = ?"
        " WHERE user_id = (SELECT id FROM regsvc_user WHERE username = ?)",
        (ago(days=30, minutes=1), alice.name),
    )
    assert changed == 1
    fail(village, alice, FREE_FAILURES + 1, "198.51.100.1")
    assert_refused(village.login(alice), 429, "rate_limited")


def test_failures_are_counted_in_one_entry_without_what_was_typed(village: Village) -> None:
    alice = village.pending("alice")
    for _try in range(3):
        log_in(village, alice.name, "wrong-password")
    rows = our_database(village).query(
        "SELECT occurrences, detail FROM regsvc_audit WHERE action = 'user.login_failed' AND target = ?", (alice.name,)
    )
    assert sum(row["occurrences"] for row in rows) == 3
    assert len(rows) <= 2, "one, or two around a full hour"
    log_in(village, "my-password-in-the-wrong-field", "x")
    assert "my-password-in-the-wrong-field" not in str(our_database(village).query("SELECT * FROM regsvc_audit"))


def test_no_token_stands_anywhere(village: Village) -> None:
    token = village.user_token(village.pending("alice"))
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token)
    signature = token.rpartition(".")[2]
    assert signature not in "\n".join(village.daemon.log)
    assert signature not in str(our_database(village).query("SELECT * FROM regsvc_session"))
